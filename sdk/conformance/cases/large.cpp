// SPDX-License-Identifier: Apache-2.0
// large.cpp: memories, copies and fills past 4 GiB, where 32-bit counts end.
//
// Invariant: what is looked at are pieces around those ends, so that a machine whose pages are made when they are touched
// needs few of them, unless a case says that it moves everything.
#include "conformance/case.hpp"
#include "conformance/objects.hpp"

#include <cstring>

namespace tenon::conform {

namespace {

constexpr uint64_t four_gib = uint64_t{1} << 32;
constexpr uint64_t large_bytes = four_gib + (uint64_t{1} << 20);
constexpr uint64_t piece = 256;
// Where the pieces lie: at both ends, and before and behind the places where 31 and 32 bits end.
constexpr uint64_t piece_places[] = {0,
                                     (uint64_t{1} << 31) - piece,
                                     uint64_t{1} << 31,
                                     four_gib - piece,
                                     four_gib,
                                     four_gib + 4096,
                                     large_bytes - piece};

// `count` memories past 4 GiB; leaves the case as skipped where the device has not that much.
Result<std::vector<Memory>> large_memories(Context& t, const Device& device, uint64_t count) {
  const tn_memory_info info = TN_TRY(device.memory_info());
  const tn_device_limits limits = TN_TRY(device.limits());
  const uint64_t needed = count * large_bytes + (uint64_t{1} << 29);
  if (info.free_bytes < needed)
    return t.skip(words("it needs ", needed, " bytes of memory; ", info.free_bytes, " are free"));
  if (limits.max_alloc_bytes != 0 && limits.max_alloc_bytes < large_bytes)
    return t.skip(
        words("it allocates ", large_bytes, " bytes; the limits say at most ", limits.max_alloc_bytes));
  std::vector<Memory> out;
  for (uint64_t i = 0; i < count; ++i) {
    auto memory = device.alloc(large_bytes);
    if (memory.code() == TN_NO_MEMORY)  // somebody else of this machine was quicker
      return t.skip(words("it needs ", needed, " bytes of memory: ", memory.message()));
    out.push_back(TN_TRY(std::move(memory)));
  }
  return out;
}

// Every piece has bytes of its own.
Bytes piece_of(uint64_t place) {
  Bytes out(piece);
  const uint64_t first = place * 0x9E3779B97F4A7C15u >> 48;
  for (uint64_t i = 0; i < piece; ++i) out[i] = static_cast<std::byte>(first + i * 3);
  return out;
}

Status write_pieces(const Stream& stream, const Memory& memory) {
  for (const uint64_t place : piece_places) {
    const Bytes bytes = piece_of(place);
    TN_TRY(upload(stream, memory.span(place, piece), bytes));
  }
  return {};
}

Status expect_pieces(Context& t, const Stream& stream, const Memory& memory, const char* what) {
  for (const uint64_t place : piece_places) {
    const Bytes found = TN_TRY(download(stream, memory.span(place, piece)));
    same_bytes(t, piece_of(place), found, words(what, ": ", piece, " bytes at ", place));
  }
  return {};
}

// Waits for what takes many times longer than usual.
Status finish_large(Context& t, const Stream& stream) {
  return stream.sync(TN_TRY(stream.record()), t.settings().long_patience_ns());
}

}  // namespace

CONFORM_CASE(0, "copy: places past 4 GiB are other places than those before") {
  const Device& device = *TN_TRY(t.device());
  const std::vector<Memory> memory = TN_TRY(large_memories(t, device, 1));
  const Memory small = TN_TRY(device.alloc(piece));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(write_pieces(stream, memory[0]));
  TN_TRY(expect_pieces(t, stream, memory[0], "from the host and back"));
  TN_TRY(stream.copy(small.span(), memory[0].span(four_gib, piece)));
  same_bytes(t, piece_of(four_gib), TN_TRY(download(stream, small.span())), "copied away from 4 GiB");
  TN_TRY(stream.copy(memory[0].span(four_gib + 8192, piece), small.span()));
  same_bytes(t, piece_of(four_gib), TN_TRY(download(stream, memory[0].span(four_gib + 8192, piece))),
             "copied to past 4 GiB");
  return expect_pieces(t, stream, memory[0], "after copies to and from past 4 GiB");
}

CONFORM_CASE(0, "fill: places past 4 GiB are other places than those before") {
  const Device& device = *TN_TRY(t.device());
  const std::vector<Memory> memory = TN_TRY(large_memories(t, device, 1));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(write_pieces(stream, memory[0]));
  TN_TRY(stream.fill(memory[0].span(four_gib + 8192, piece), 0x77, 1));
  same_bytes(t, Bytes(piece, std::byte{0x77}),
             TN_TRY(download(stream, memory[0].span(four_gib + 8192, piece))), "filled past 4 GiB");
  return expect_pieces(t, stream, memory[0], "after a fill past 4 GiB");
}

CONFORM_CASE(0, "copy: more than 4 GiB in one call", .deadlines = 24) {
  const Device& device = *TN_TRY(t.device());
  if (t.quick()) return t.skip("it moves over 8 GiB: not under --quick");
  const std::vector<Memory> memory = TN_TRY(large_memories(t, device, 2));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(write_pieces(stream, memory[0]));
  for (const uint64_t place : piece_places) TN_TRY(stream.fill(memory[1].span(place, piece), 0xEE, 1));
  TN_TRY(stream.copy(memory[1].span(), memory[0].span()));
  TN_TRY(finish_large(t, stream));
  return expect_pieces(t, stream, memory[1], "after a copy of more than 4 GiB");
}

CONFORM_CASE(0, "fill: more than 4 GiB in one call", .deadlines = 24) {
  const Device& device = *TN_TRY(t.device());
  if (t.quick()) return t.skip("it writes over 4 GiB: not under --quick");
  const std::vector<Memory> memory = TN_TRY(large_memories(t, device, 1));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(write_pieces(stream, memory[0]));
  constexpr uint64_t pattern = 0x0123456789abcdef;
  TN_TRY(stream.fill(memory[0].span(piece, large_bytes - 2 * piece), pattern,
                     8));  // all but the first and the last
  TN_TRY(finish_large(t, stream));
  Bytes filled(piece);
  for (uint64_t i = 0; i < piece; i += 8) std::memcpy(filled.data() + i, &pattern, 8);
  for (const uint64_t place : piece_places) {
    const bool border = place == 0 || place == large_bytes - piece;
    same_bytes(t, border ? piece_of(place) : filled, TN_TRY(download(stream, memory[0].span(place, piece))),
               words("after a fill of more than 4 GiB: ", piece, " bytes at ", place));
  }
  return {};
}

}  // namespace tenon::conform
