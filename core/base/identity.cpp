// SPDX-License-Identifier: Apache-2.0
// identity.cpp: see identity.hpp.
//
// Every number is fed as eight little-endian bytes and every list behind its length, so no two fragments feed the same
// bytes. A change of this order renames all fragments: raise the number in `heading` with it.
#include "base/identity.hpp"

#include <bit>
#include <string_view>

namespace tenon::base {
namespace {

constexpr std::string_view heading = "tenon fragment 1";

class Feed {
 public:
  void number(uint64_t value) noexcept {
    std::array<std::byte, 8> bytes;
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
    hash_.add(bytes);
  }
  void number(double value) noexcept { number(std::bit_cast<uint64_t>(value)); }
  void bytes(const void* data, uint64_t count) noexcept {
    number(count);
    if (count != 0) hash_.add(std::span(static_cast<const std::byte*>(data), count));
  }
  void text(std::string_view text) noexcept { bytes(text.data(), text.size()); }
  template <class Number>
  void list(const Number* values, uint64_t count) noexcept {
    number(count);
    for (uint64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<Number, double>) {
        number(values[i]);
      } else {
        number(static_cast<uint64_t>(values[i]));
      }
    }
  }
  Digest finish() noexcept { return hash_.finish(); }

 private:
  Sha256 hash_;
};

void feed_tensor(Feed& feed, const tn_tensor& tensor) noexcept {
  feed.number(uint64_t{tensor.dtype});
  feed.list(tensor.dims, tensor.rank);
  feed.list(tensor.strides, tensor.strides == nullptr ? 0 : tensor.rank);
  feed.number(uint64_t{tensor.layout});
  feed.number(uint64_t{tensor.flags});
  feed.number(tensor.alignment);
  feed.bytes(tensor.constant, tensor.constant_bytes);
}

void feed_attribute(Feed& feed, const tn_attribute& attribute) noexcept {
  feed.text(attribute.name);
  feed.number(uint64_t{attribute.kind});
  switch (attribute.kind) {
    case TN_ATTRIBUTE_F64:
      return feed.number(attribute.f64);
    case TN_ATTRIBUTE_I64S:
      return feed.list(static_cast<const int64_t*>(attribute.data), attribute.count);
    case TN_ATTRIBUTE_F64S:
      return feed.list(static_cast<const double*>(attribute.data), attribute.count);
    case TN_ATTRIBUTE_STRING:
    case TN_ATTRIBUTE_BYTES:
      return feed.bytes(attribute.data, attribute.count);
    default:
      return feed.number(static_cast<uint64_t>(attribute.i64));
  }
}

void feed_node(Feed& feed, const tn_node& node) noexcept {
  feed.number(uint64_t{node.op});
  feed.number(uint64_t{node.version});
  feed.list(node.inputs, node.input_count);
  feed.list(node.outputs, node.output_count);
  feed.number(uint64_t{node.attribute_count});
  for (uint32_t i = 0; i < node.attribute_count; ++i) feed_attribute(feed, node.attributes[i]);
}

}  // namespace

Digest identity_of(const tn_fragment& fragment) noexcept {
  Feed feed;
  feed.text(heading);
  feed.number(uint64_t{fragment.tensor_count});
  for (uint32_t i = 0; i < fragment.tensor_count; ++i) feed_tensor(feed, fragment.tensors[i]);
  feed.number(uint64_t{fragment.node_count});
  for (uint32_t i = 0; i < fragment.node_count; ++i) feed_node(feed, fragment.nodes[i]);
  feed.list(fragment.inputs, fragment.input_count);
  feed.list(fragment.outputs, fragment.output_count);
  feed.number(uint64_t{fragment.alias_count});
  for (uint32_t i = 0; i < fragment.alias_count; ++i) {
    feed.number(uint64_t{fragment.aliases[i].input});
    feed.number(uint64_t{fragment.aliases[i].output});
  }
  return feed.finish();
}

}  // namespace tenon::base
