// SPDX-License-Identifier: Apache-2.0
// strided.cpp: copies of boxes of bytes, against the same box copied by hand.
#include "conformance/case.hpp"
#include "conformance/guard.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::conform {

namespace {

Status needs_strided(Context& t, const Device& device) {
  return t.needs(device.api().stream.copy_strided != nullptr, "stream.copy_strided",
                 "the plugin has no copy_strided: the core copies row by row");
}

// Strides of a box with gaps between its rows, and the bytes it spans.
uint64_t spread(Random& random, const tn_copy_shape& shape, uint64_t (&stride)[4]) {
  uint64_t inner = 1;
  for (uint32_t i = shape.rank; i-- > 0;) {
    stride[i] = i + 1 == shape.rank ? 1 : inner + random.below(9);
    inner = i + 1 == shape.rank ? shape.extent[i] : stride[i] * shape.extent[i];
  }
  uint64_t last = 0;
  for (uint32_t i = 0; i < shape.rank; ++i) last += (shape.extent[i] - 1) * stride[i];
  return last + 1;
}

tn_copy_shape random_shape(Random& random, uint32_t rank) {
  tn_copy_shape shape{};
  shape.size = sizeof shape;
  shape.rank = rank;
  for (uint32_t i = 0; i < rank; ++i) shape.extent[i] = random.between(1, i + 1 == rank ? 60 : 7);
  return shape;
}

void by_hand(const tn_copy_shape& shape, uint32_t dimension, std::byte* to, const std::byte* from) {
  if (dimension == 3 || dimension + 1 == shape.rank) {  // a box has at most four
    std::memcpy(to, from, shape.extent[dimension]);
    return;
  }
  for (uint64_t i = 0; i < shape.extent[dimension]; ++i) {
    by_hand(shape, dimension + 1, to + i * shape.dst_stride[dimension],
            from + i * shape.src_stride[dimension]);
  }
}

std::string told(const tn_copy_shape& shape) {
  std::string out = words("a box of rank ", shape.rank, ",");
  for (uint32_t i = 0; i < shape.rank; ++i) {
    out += words(" ", shape.extent[i], " (", shape.dst_stride[i], " ← ", shape.src_stride[i], ")");
  }
  return out;
}

}  // namespace

CONFORM_CASE(0, "strided: boxes of rank 1 to 4 arrive whole and touch nothing else") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_strided(t, device));
  const Stream stream = TN_TRY(device.stream());
  for (int i = 0; i < (t.quick() ? 30 : 150); ++i) {
    tn_copy_shape shape = random_shape(t.random(), 1 + static_cast<uint32_t>(t.random().below(4)));
    const uint64_t to_bytes = spread(t.random(), shape, shape.dst_stride),
                   from_bytes = spread(t.random(), shape, shape.src_stride);
    const Bytes sent = random_bytes(t.random(), from_bytes);
    Bytes expected = random_bytes(t.random(), to_bytes);
    const Guarded from = TN_TRY(Guarded::make(device, stream, from_bytes, t.random().below(5)));
    const Guarded to = TN_TRY(Guarded::make(device, stream, to_bytes, t.random().below(5)));
    TN_TRY(upload(stream, from.span(), sent));
    TN_TRY(upload(stream, to.span(), expected));
    TN_TRY(stream.copy_strided(to.span(), from.span(), shape));
    by_hand(shape, 0, expected.data(), sent.data());
    TN_TRY(to.expect(t, stream, expected, told(shape)));
  }
  return {};
}

CONFORM_CASE(0, "strided: to and from pageable host memory") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_strided(t, device));
  const Stream stream = TN_TRY(device.stream());
  for (int i = 0; i < (t.quick() ? 10 : 50); ++i) {
    tn_copy_shape shape = random_shape(t.random(), 2 + static_cast<uint32_t>(t.random().below(3)));
    const uint64_t to_bytes = spread(t.random(), shape, shape.dst_stride),
                   from_bytes = spread(t.random(), shape, shape.src_stride);
    const Fenced host(from_bytes), back(from_bytes);
    t.random().fill(host.bytes());
    const Bytes sent(host.bytes().begin(), host.bytes().end());
    const Memory there = TN_TRY(device.alloc(to_bytes));
    TN_TRY(stream.copy_strided(there.span(), host.span(), shape));
    std::fill(host.bytes().begin(), host.bytes().end(), std::byte{0});  // consumed on return
    std::fill(back.bytes().begin(), back.bytes().end(), std::byte{0x3C});
    tn_copy_shape home = shape;
    std::swap(home.dst_stride, home.src_stride);
    TN_TRY(stream.copy_strided(back.span(), there.span(), home));
    TN_TRY(stream.finish());
    Bytes middle(to_bytes), expected(from_bytes, std::byte{0x3C});
    by_hand(shape, 0, middle.data(), sent.data());
    by_hand(home, 0, expected.data(), middle.data());
    same_bytes(t, expected, back.bytes(), told(shape) + " there and back");
  }
  return {};
}

CONFORM_CASE(0, "strided: an empty box copies nothing") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_strided(t, device));
  const Stream stream = TN_TRY(device.stream());
  const Guarded a = TN_TRY(Guarded::make(device, stream, 64))
  , b = TN_TRY(Guarded::make(device, stream, 64));
  const Bytes before = TN_TRY(b.read(t, stream, "before"));
  tn_copy_shape shape{
      .size = sizeof(tn_copy_shape), .rank = 2, .extent = {0, 8}, .dst_stride = {8, 1}, .src_stride = {8, 1}};
  TN_TRY(stream.copy_strided(b.span(), a.span(), shape));
  shape.extent[0] = 3;
  shape.extent[1] = 0;
  TN_TRY(stream.copy_strided(b.span(), a.span(), shape));
  return b.expect(t, stream, before, "a box without rows, and one without columns");
}

CONFORM_CASE(0, "strided: a box that leaves its span, or has no sense, is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_strided(t, device));
  const Stream stream = TN_TRY(device.stream());
  const Memory a = TN_TRY(device.alloc(100))
  , b = TN_TRY(device.alloc(100));
  const auto refuse = [&](const tn_copy_shape& shape, const char* what) {
    const Status said = stream.copy_strided(b.span(), a.span(), shape);
    t.check(said.code() == TN_INVALID, what, ": expected TN_INVALID, got ",
            said.ok() ? "TN_OK" : said.message());
  };
  const tn_copy_shape good{
      .size = sizeof good, .rank = 2, .extent = {10, 10}, .dst_stride = {10, 1}, .src_stride = {10, 1}};
  TN_TRY(stream.copy_strided(b.span(), a.span(), good));
  tn_copy_shape bad = good;
  bad.dst_stride[0] = 11;
  refuse(bad, "a destination that reaches 109 of 100 bytes");
  bad = good;
  bad.src_stride[0] = 11;
  refuse(bad, "a source that reaches 109 of 100 bytes");
  bad = good;
  bad.src_stride[0] = UINT64_MAX / 4;
  refuse(bad, "a stride that overflows");
  for (const uint32_t rank : {0u, 5u, UINT32_MAX}) {
    bad = good;
    bad.rank = rank;
    refuse(bad, rank == 0 ? "rank 0" : "a rank above 4");
  }
  return stream.finish();
}

}  // namespace tenon::conform
