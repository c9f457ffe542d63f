// SPDX-License-Identifier: Apache-2.0
// header_writer.cpp: where tensors go, and the text that says so.
//
// Invariant: equal tensors and notes give equal bytes, in whatever order they came.
#include "base/extent.hpp"
#include "base/fragment_parts.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "checkpoint/dtypes.hpp"
#include "checkpoint/header.hpp"

#include <algorithm>
#include <set>

namespace tenon::checkpoint {
namespace {

using base::json_quoted;

constexpr std::string_view head_begin = "{\"__metadata__\":{\"tenon.sha256\":\"";
constexpr size_t digest_at = length_bytes + head_begin.size();
constexpr size_t digest_letters = 2 * sizeof(base::Digest);

Status bad(const CheckpointTensor& tensor, const std::string& why) {
  return {TN_INVALID, "checkpoint tensor " + base::quoted(tensor.name) + " " + why};
}

bool is_dense(TensorSpec spec) {
  if (spec.strides.empty()) return true;
  if (spec.strides.size() != spec.dims.size()) return false;
  base::drop_dense_strides(spec);
  return spec.strides.empty();
}

Status check(const CheckpointTensor& tensor) {
  const TensorSpec& spec = tensor.spec;
  if (!base::is_utf8(tensor.name)) return bad(tensor, "has a name that is not UTF-8: call it otherwise");
  if (tensor.name == "__metadata__") return bad(tensor, "has the name of the notes: call it otherwise");
  if (format_name(spec.dtype).empty())
    return bad(tensor, "is of type " + std::string(name(spec.dtype)) +
                           ", which safetensors has no name for: convert it first");
  if (spec.dims.size() > TN_MAX_RANK)
    return bad(tensor, "has " + base::counted(spec.dims.size(), "dim") + ", more than " +
                           std::to_string(TN_MAX_RANK) + ": merge dims");
  if (!is_dense(spec)) return bad(tensor, "has strides that are not dense: copy it first");
  const base::Extent extent = base::extent_of(spec.dims, {}, bits(spec.dtype));
  if (extent.too_large)
    return bad(tensor, "is " + words(spec) + ": dims are 0 or more, and fit in 2^63 bytes");
  if (extent.bytes != tensor.bytes.size())
    return bad(tensor, "is " + words(spec) + ", which takes " + std::to_string(extent.bytes) +
                           " bytes, and was given " + std::to_string(tensor.bytes.size()));
  return {};
}

Status check(const CheckpointNotes& notes) {
  for (const auto& [name, value] : notes) {
    const std::string note = "checkpoint note " + base::quoted(name);
    if (name.starts_with(own_notes))
      return {TN_INVALID, note + " begins with 'tenon.', as the library's own do: call it otherwise"};
    if (!base::is_utf8(name) || !base::is_utf8(value))
      return {TN_INVALID, note + " is not UTF-8: write it in hex, or as a tensor of u8"};
  }
  return {};
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  return out + "]";
}

std::string note_text(std::string_view name, std::string_view value) {
  return "," + json_quoted(name) + ":" + json_quoted(value);
}

std::string tensor_text(const Placed& placed) {
  const TensorSpec& spec = placed.tensor.spec;
  return "," + json_quoted(placed.tensor.name) + ":{\"dtype\":" + json_quoted(format_name(spec.dtype)) +
         ",\"shape\":" + dims_text(spec.dims) + ",\"data_offsets\":[" + std::to_string(placed.begin) + "," +
         std::to_string(placed.end) + "]}";
}

// SHA-256 of `head`, in hex, with zeros in its own place.
std::string digest_of(std::string_view head) {
  base::Sha256 hash;
  hash.add(head.substr(0, digest_at));
  hash.add(std::string(digest_letters, '0'));
  hash.add(head.substr(digest_at + digest_letters));
  return base::hex(hash.finish());
}

// Of one name twice. Tensors of several widths stand apart, so their order alone does not show it.
Status check_unique(const Header& header) {
  std::set<std::string_view> names;
  for (const Placed& placed : header.tensors)
    if (!names.insert(placed.tensor.name).second)
      return bad(placed.tensor, "is there twice: names are unique");
  return {};
}

}  // namespace

std::string words(const TensorSpec& spec) { return std::string(name(spec.dtype)) + dims_text(spec.dims); }

Result<Header> lay_out(std::span<const CheckpointTensor> tensors, const CheckpointNotes& notes) {
  TN_TRY(check(notes));
  Header header{.notes = notes, .own = true};
  for (const CheckpointTensor& tensor : tensors) {
    TN_TRY(check(tensor));
    header.tensors.push_back({.tensor = tensor});
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const Placed& a, const Placed& b) {
    const uint32_t width_a = bits(a.tensor.spec.dtype), width_b = bits(b.tensor.spec.dtype);
    return width_a != width_b ? width_a > width_b : a.tensor.name < b.tensor.name;
  });
  TN_TRY(check_unique(header));
  uint64_t at = 0;
  for (Placed& placed : header.tensors) {
    placed.begin = at;
    if (placed.tensor.bytes.size() > INT64_MAX - at) return bad(placed.tensor, "ends past 2^63 bytes");
    placed.end = at += placed.tensor.bytes.size();
  }
  const uint64_t bytes = head_of(header).size() - length_bytes;
  if (bytes > most_header_bytes)
    return Status(TN_INVALID, "the checkpoint's header takes " + std::to_string(bytes) +
                                  " bytes, and the format allows " + std::to_string(most_header_bytes) +
                                  ": use fewer tensors, or several checkpoints");
  return header;
}

std::string head_of(const Header& header) {
  std::string head(length_bytes, '\0');
  head.append(head_begin).append(std::string(digest_letters, '0')).append("\"");
  head += note_text(format_note, format);
  for (const auto& [name, value] : header.notes) head += note_text(name, value);
  for (const Placed& placed : header.tensors) {
    std::string digest = placed.digest;
    digest.resize(digest_letters, '0');
    head += note_text(std::string(digest_note) + "." + placed.tensor.name, digest);
  }
  head += "}";
  for (const Placed& placed : header.tensors) head += tensor_text(placed);
  head += "}";
  head.append((alignment - head.size() % alignment) % alignment, ' ');
  for (size_t i = 0; i < length_bytes; ++i)
    head[i] = static_cast<char>((head.size() - length_bytes) >> (8 * i) & 0xFF);
  return head.replace(digest_at, digest_letters, digest_of(head));
}

bool is_own_head(std::string_view head) noexcept {
  return head.substr(std::min(head.size(), size_t{length_bytes})).starts_with(head_begin);
}

bool is_whole_head(std::string_view head) {
  return head.size() >= digest_at + digest_letters &&
         head.substr(digest_at, digest_letters) == digest_of(head);
}

}  // namespace tenon::checkpoint
