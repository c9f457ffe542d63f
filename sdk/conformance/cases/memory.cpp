// SPDX-License-Identifier: Apache-2.0
// memory.cpp: allocation: alignment, kinds, sizes, refusals, figures.
#include "conformance/case.hpp"
#include "conformance/guard.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::conform {

namespace {

const char* kind_word(uint32_t kind) { return kind == TN_MEMORY_HOST ? "HOST" : "MANAGED"; }

// One memory of an optional kind; leaves the case where the plugin has none.
Result<Memory> alloc_kind(Context& t, const Device& device, uint32_t kind, const char* tag) {
  auto memory = device.alloc(64 * 1024, kind);
  if (!memory.ok() && memory.code() == TN_UNSUPPORTED)
    return t.unsupported(tag, std::string(memory.message()));
  TN_TRY(t.require(memory.ok(), memory.message()));
  TN_TRY(t.needs(true, tag, ""));
  return memory;
}

// Where bytes can be addressed at all: on the device, or in pinned memory.
Result<Memory> addressable(Context& t, const Device& device, uint64_t bytes, uint64_t alignment) {
  if (device.api().device.address == nullptr) {
    return t.unsupported("device.address",
                         "the plugin has no addresses: alignment cannot be seen from outside");
  }
  const uint32_t kind = device.has(TN_FEATURE_ADDRESSABLE) ? TN_MEMORY_DEVICE : TN_MEMORY_HOST;
  return device.alloc(bytes, kind, alignment);
}

// Host code writes through the address, the device copies, host code reads.
Status through_address(Context& t, const Device& device, const Memory& memory, uint32_t kind) {
  const uint64_t address = TN_TRY(memory.address());
  TN_TRY(t.require(address != 0, kind_word(kind), " memory is at address 0"));
  const Stream stream = TN_TRY(device.stream());
  const Memory there = TN_TRY(device.alloc(memory.bytes()));
  const Bytes sent = random_bytes(t.random(), memory.bytes());
  std::memcpy(reinterpret_cast<void*>(address), sent.data(), sent.size());
  TN_TRY(stream.copy(there.span(), memory.span()));
  TN_TRY(stream.fill(memory.span(), 0, 1));
  TN_TRY(stream.copy(memory.span(), there.span()));
  TN_TRY(stream.finish());
  const auto* const seen = reinterpret_cast<const std::byte*>(address);
  same_bytes(t, sent, {seen, sent.size()},
             words("bytes written and read through the address of ", kind_word(kind), " memory"));
  return {};
}

bool has_figures(std::string_view message) {
  return std::count_if(message.begin(), message.end(), [](char c) { return c >= '0' && c <= '9'; }) >= 2;
}

}  // namespace

CONFORM_CASE(0, "memory: alloc grants the stated alignment") {
  const Device& device = *TN_TRY(t.device());
  const tn_device_limits limits = TN_TRY(device.limits());
  std::vector<Memory> kept;  // so that one lucky address is not handed out again and again
  for (const uint64_t bytes :
       {1, 3, 8, 63, 64, 65, 255, 256, 257, 1000, 4095, 4096, 4097, 100'000, 3'000'001}) {
    kept.push_back(TN_TRY(addressable(t, device, bytes, 0)));
    const uint64_t address = TN_TRY(kept.back().address());
    t.check(address % limits.alignment == 0, bytes, " bytes were put at ", hex(address),
            ", the limits promise alignment ", limits.alignment);
  }
  return {};
}

CONFORM_CASE(0, "memory: a greater alignment is granted when asked for") {
  const Device& device = *TN_TRY(t.device());
  std::vector<Memory> kept;
  for (uint64_t alignment = 1; alignment <= 65536; alignment *= 2) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{777}, alignment + 1}) {
      kept.push_back(TN_TRY(addressable(t, device, bytes, alignment)));
      const uint64_t address = TN_TRY(kept.back().address());
      t.check(address % alignment == 0, bytes, " bytes with alignment ", alignment, " were put at ",
              hex(address));
    }
  }
  return {};
}

CONFORM_CASE(0, "memory: an alignment that is no power of two is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  for (const uint64_t alignment : {uint64_t{3}, uint64_t{24}, uint64_t{1000}, UINT64_MAX}) {
    tn_memory* handle = nullptr;
    t.refuses(TN_INVALID, words("device.alloc with alignment ", alignment), [&](tn_error* e) {
      return device.api().device.alloc(device.handle(), TN_MEMORY_DEVICE, 64, alignment, &handle, e);
    });
    t.check(handle == nullptr, "a refused alloc stored a memory");
  }
  return {};
}

CONFORM_CASE(0, "memory: zero bytes give a memory") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  const Memory first = TN_TRY(device.alloc(0))
  , second = TN_TRY(device.alloc(0, TN_MEMORY_DEVICE, 4096));
  t.check(first.handle() != second.handle(),
          "two memories of no bytes have one handle, and each will be freed");
  TN_TRY(stream.copy(first.span(), second.span()));
  TN_TRY(stream.fill(second.span(), 0, 4));
  return stream.finish();
}

CONFORM_CASE(0, "memory: every size holds what is written to it") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  std::vector<uint64_t> sizes{1, 2, 3, 7, 15, 31, 64, 127, 1023, 4096, 65'537, 1'000'003, 4'194'304};
  for (int i = 0; i < (t.quick() ? 6 : 24); ++i) sizes.push_back(t.random().between(1, 2'000'000));
  if (!t.quick()) sizes.push_back(uint64_t{96} << 20);
  for (const uint64_t bytes : sizes) {
    const Memory memory = TN_TRY(device.alloc(bytes));
    const Bytes sent = random_bytes(t.random(), bytes);
    TN_TRY(upload(stream, memory.span(), sent));
    same_bytes(t, sent, TN_TRY(download(stream, memory.span())), words("a memory of ", bytes, " bytes"));
  }
  return {};
}

CONFORM_CASE(0, "memory: two memories never overlap") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  std::vector<std::pair<Memory, Bytes>> alive;
  for (int step = 0; step < (t.quick() ? 150 : 800); ++step) {
    if (alive.size() > 40 || (!alive.empty() && t.random().chance(3))) {
      const size_t victim = t.random().below(alive.size());
      const Bytes found = TN_TRY(download(stream, alive[victim].first.span()));
      same_bytes(t, alive[victim].second, found,
                 words("a memory of ", found.size(), " bytes after its neighbours were written"));
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(victim));
      continue;
    }
    const uint64_t bytes = t.random().between(1, t.random().chance(8) ? 70'000 : 900);
    Memory memory = TN_TRY(device.alloc(bytes));
    Bytes sent = random_bytes(t.random(), bytes);
    TN_TRY(upload(stream, memory.span(), sent));
    alive.emplace_back(std::move(memory), std::move(sent));
  }
  for (const auto& [memory, sent] : alive) {
    same_bytes(t, sent, TN_TRY(download(stream, memory.span())),
               words("a memory of ", sent.size(), " bytes at the end"));
  }
  return {};
}

CONFORM_CASE(0, "memory: pinned host memory is read and written through its address") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(alloc_kind(t, device, TN_MEMORY_HOST, "memory.host"));
  return through_address(t, device, memory, TN_MEMORY_HOST);
}

CONFORM_CASE(0, "memory: managed memory is read and written through its address") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(alloc_kind(t, device, TN_MEMORY_MANAGED, "memory.managed"));
  return through_address(t, device, memory, TN_MEMORY_MANAGED);
}

CONFORM_CASE(0, "memory: device memory has an address where ADDRESSABLE is declared") {
  const Device& device = *TN_TRY(t.device());
  const Memory a = TN_TRY(device.alloc(1000))
  , b = TN_TRY(device.alloc(1000));
  if (!device.has(TN_FEATURE_ADDRESSABLE)) {
    if (device.api().device.address != nullptr && a.address().ok()) {
      t.warn("device memory has an address although the plugin does not declare ADDRESSABLE");
    }
    return t.unsupported("feature.ADDRESSABLE", "the plugin does not declare ADDRESSABLE");
  }
  TN_TRY(t.needs(true, "feature.ADDRESSABLE", ""));
  const uint64_t first = TN_TRY(a.address())
  , second = TN_TRY(b.address());
  t.check(first != 0 && second != 0 && first != second, "two memories are at ", hex(first), " and ",
          hex(second));
  t.check(first + 1000 <= second || second + 1000 <= first, "two memories overlap: ", hex(first), " and ",
          hex(second));
  t.check(TN_TRY(a.address()) == first, "the address changed between two calls");
  return {};
}

CONFORM_CASE(0, "memory: a kind that does not exist is TN_UNSUPPORTED") {
  const Device& device = *TN_TRY(t.device());
  for (const uint32_t kind : {3u, 99u, UINT32_MAX}) {
    tn_memory* handle = nullptr;
    t.refuses(TN_UNSUPPORTED, words("device.alloc of kind ", kind), [&](tn_error* e) {
      return device.api().device.alloc(device.handle(), kind, 64, 0, &handle, e);
    });
    t.check(handle == nullptr, "a refused alloc stored a memory");
  }
  return {};
}

CONFORM_CASE(0, "memory: more than there is is TN_NO_MEMORY, with the figures") {
  const Device& device = *TN_TRY(t.device());
  const tn_memory_info info = TN_TRY(device.memory_info());
  const uint64_t beyond = info.total_bytes < UINT64_MAX / 4 ? info.total_bytes * 2 + 1 : UINT64_MAX;
  for (const uint64_t bytes : {beyond, uint64_t{1} << 62, UINT64_MAX - 4095, UINT64_MAX}) {
    tn_memory* handle = nullptr;
    const Status said = t.call(words("device.alloc(", bytes, " bytes)"), [&](tn_error* e) {
      return device.api().device.alloc(device.handle(), TN_MEMORY_DEVICE, bytes, 0, &handle, e);
    });
    if (!t.check(said.code() == TN_NO_MEMORY, bytes, " bytes of ", info.total_bytes,
                 ": expected TN_NO_MEMORY, got ", said.ok() ? "TN_OK" : said.message())) {
      if (handle != nullptr) device.api().device.free(handle, nullptr);
      continue;
    }
    t.check(handle == nullptr, "a refused alloc stored a memory");
    t.check(has_figures(said.message()), "the message holds no figures (asked, free): ", said.message());
  }
  const Memory after = TN_TRY(device.alloc(4096));  // and the device goes on
  return {};
}

CONFORM_CASE(0, "memory: the figures follow allocation") {
  const Device& device = *TN_TRY(t.device());
  constexpr uint64_t piece = uint64_t{24} << 20;
  const tn_memory_info before = TN_TRY(device.memory_info());
  t.check(before.total_bytes > 0 && before.free_bytes <= before.total_bytes, "free ", before.free_bytes,
          " of ", before.total_bytes, " bytes");
  Memory memory = TN_TRY(device.alloc(piece));
  const tn_memory_info during = TN_TRY(device.memory_info());
  t.check(during.used_here_bytes >= before.used_here_bytes + piece, "used_here_bytes went from ",
          before.used_here_bytes, " to ", during.used_here_bytes, " for ", piece, " bytes");
  TN_TRY(memory.release());
  const tn_memory_info after = TN_TRY(device.memory_info());
  t.check(after.used_here_bytes <= before.used_here_bytes, "used_here_bytes is ", after.used_here_bytes,
          " after the memory was freed, it was ", before.used_here_bytes, " before");
  t.check(after.total_bytes == before.total_bytes, "total_bytes changed from ", before.total_bytes, " to ",
          after.total_bytes);
  return {};
}

CONFORM_CASE(0, "memory: what is freed can be had again") {
  const Device& device = *TN_TRY(t.device());
  const tn_memory_info before = TN_TRY(device.memory_info());
  const uint64_t piece =
      std::max<uint64_t>(std::min<uint64_t>(before.total_bytes / 64, uint64_t{8} << 20), 4096);
  const int rounds = t.quick() ? 300 : 3000;  // many times what there is, where there is little
  for (int i = 0; i < rounds; ++i) {
    const auto memory = device.alloc(piece + t.random().below(4096));
    TN_TRY(t.require(memory.ok(), "round ", i, " of alloc and free: ", memory.message()));
  }
  const tn_memory_info after = TN_TRY(device.memory_info());
  t.check(after.used_here_bytes <= before.used_here_bytes, "after ", rounds,
          " rounds of alloc and free used_here_bytes went from ", before.used_here_bytes, " to ",
          after.used_here_bytes);
  return {};
}

}  // namespace tenon::conform
