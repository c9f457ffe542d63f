// SPDX-License-Identifier: Apache-2.0
// fill.cpp: fills of every pattern width, and what is refused.
#include "conformance/case.hpp"
#include "conformance/guard.hpp"

#include <cstring>

namespace tenon::conform {

CONFORM_CASE(0, "fill: every pattern width repeats and touches nothing else") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  for (const uint32_t width : {1u, 2u, 4u, 8u}) {
    for (int i = 0; i < (t.quick() ? 8 : 40); ++i) {
      const uint64_t bytes = t.random().between(1, t.random().chance(2) ? 20 : 3000) * width;
      const uint64_t skew = t.random().below(16), pattern = t.random().next();
      const Guarded target = TN_TRY(Guarded::make(device, stream, bytes, skew));
      TN_TRY(stream.fill(target.span(), pattern, width));
      Bytes expected(bytes);
      for (uint64_t at = 0; at < bytes; at += width) std::memcpy(expected.data() + at, &pattern, width);
      TN_TRY(target.expect(
          t, stream, expected,
          words("pattern ", hex(pattern), " of ", width, " bytes over ", bytes, " bytes at offset ", skew)));
    }
  }
  return {};
}

CONFORM_CASE(0, "fill: a wrong pattern width is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(96));
  const Stream stream = TN_TRY(device.stream());
  for (const uint32_t width : {0u, 3u, 5u, 6u, 7u, 12u, 16u, UINT32_MAX}) {
    const Status said = stream.fill(memory.span(), 0, width);
    t.check(said.code() == TN_INVALID, "a pattern of ", width, " bytes: expected TN_INVALID, got ",
            said.ok() ? "TN_OK" : said.message());
  }
  for (const auto& [bytes, width] : {std::pair<uint64_t, uint32_t>{7, 2}, {10, 4}, {12, 8}, {1, 8}}) {
    const Status said = stream.fill(memory.span(0, bytes), 0, width);
    t.check(said.code() == TN_INVALID, "a pattern of ", width, " over ", bytes,
            " bytes: expected TN_INVALID, got ", said.ok() ? "TN_OK" : said.message());
  }
  return stream.finish();
}

CONFORM_CASE(0, "fill: a span that leaves its memory is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(1000));
  const Stream stream = TN_TRY(device.stream());
  for (const auto& [offset, bytes] :
       {std::pair<uint64_t, uint64_t>{0, 1001}, {1000, 1}, {UINT64_MAX, 1}, {8, 1000}}) {
    const Status said = stream.fill(memory.span(offset, bytes), 0, 1);
    t.check(said.code() == TN_INVALID, "offset ", offset, " and ", bytes,
            " of 1000 bytes: expected TN_INVALID, got ", said.ok() ? "TN_OK" : said.message());
  }
  t.check(stream.fill({nullptr, 0, 8, TN_SPACE_MEMORY, 0}, 0, 1).code() == TN_INVALID,
          "no memory must be TN_INVALID");
  return stream.finish();
}

CONFORM_CASE(0, "fill: zero bytes are legal") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(100));
  const Stream stream = TN_TRY(device.stream());
  for (const uint32_t width : {1u, 2u, 4u, 8u}) {
    for (const tn_span& target :
         {memory.span(0, 0), memory.span(100, 0), tn_span{nullptr, 0, 0, TN_SPACE_MEMORY, 0}}) {
      const Status said = stream.fill(target, 0xFF, width);
      t.check(said.ok(), "zero bytes at offset ", target.offset, ": ", said.message());
    }
  }
  return stream.finish();
}

CONFORM_CASE(0, "fill: fills and copies of one stream run in order") {
  const Device& device = *TN_TRY(t.device());
  constexpr uint64_t bytes = 30'000;
  const Memory a = TN_TRY(device.alloc(bytes))
  , b = TN_TRY(device.alloc(bytes));
  const Stream stream = TN_TRY(device.stream());
  Bytes expected(bytes);
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t begin = i * 300;
    TN_TRY(stream.fill(a.span(), i, 1));
    TN_TRY(stream.copy(b.span(begin, 300), a.span(begin, 300)));
    std::memset(expected.data() + begin, static_cast<int>(i), 300);
  }
  same_bytes(t, expected, TN_TRY(download(stream, b.span())), "each copy between two fills");
  return {};
}

}  // namespace tenon::conform
