// SPDX-License-Identifier: Apache-2.0
// memory_test.cpp: memory, copies and fills of the CPU plugin.
//
// Invariant: what is copied is compared byte for byte, with bytes around it that must stay.
#include "tensors.hpp"

#include <thread>

using namespace cpu_test;

namespace {

std::vector<std::byte> noise(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

}  // namespace

TEST_CASE("device: there is at least one, and it describes itself without being opened") {
  uint32_t count = 0;
  must([&](tn_error* e) { return plugin().device->count(&plugin(), &count, e); });
  REQUIRE(count >= 1);
  tn_device_info described{};
  described.size = sizeof described;
  must([&](tn_error* e) { return plugin().device->info(&plugin(), 0, &described, e); });
  CHECK(described.kind == TN_DEVICE_CPU);
  CHECK(std::string(described.id).starts_with("numa"));
  CHECK(std::string(described.name) != "");
  CHECK(described.compute_units >= 1);
  CHECK(described.memory_bytes > 0);
  CHECK(plugin().device->info(&plugin(), count, &described, nullptr) == TN_NOT_FOUND);
}

TEST_CASE("memory: every kind and size is aligned and writable, and zero bytes are a memory") {
  const Device device = open_device();
  for (const uint32_t kind : {TN_MEMORY_DEVICE, TN_MEMORY_HOST, TN_MEMORY_MANAGED}) {
    for (const uint64_t bytes :
         {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{2} << 20, (uint64_t{3} << 20) + 5}) {
      const Memory memory = allocate(device, bytes, kind);
      std::byte* at = address(memory);
      CHECK(reinterpret_cast<uintptr_t>(at) % TN_MEMORY_ALIGNMENT == 0);
      if (bytes > 0) std::memset(at, 0x5A, bytes);
    }
  }
}

TEST_CASE("memory: a larger alignment is granted") {
  const Device device = open_device();
  for (const uint64_t alignment : {uint64_t{4096}, uint64_t{1} << 21, uint64_t{1} << 23}) {
    for (const uint64_t bytes : {uint64_t{100}, uint64_t{4} << 20}) {
      const Memory memory = allocate(device, bytes, TN_MEMORY_DEVICE, alignment);
      CHECK(reinterpret_cast<uintptr_t>(address(memory)) % alignment == 0);
    }
  }
}

TEST_CASE("memory: an absurd size is refused with figures") {
  const Device device = open_device();
  for (const uint64_t bytes : {uint64_t{1} << 50, UINT64_MAX, UINT64_MAX - 4095}) {
    tn_memory* memory = nullptr;
    const Outcome out = outcome_of(
        [&](tn_error* e) { return plugin().device->alloc(device, TN_MEMORY_DEVICE, bytes, 0, &memory, e); });
    CHECK(out.code == TN_NO_MEMORY);
    CHECK(out.says(std::to_string(bytes).c_str()));
    CHECK(memory == nullptr);
  }
}

TEST_CASE("memory: the device counts what is allocated here") {
  const Device device = open_device();
  const auto used = [&] {
    tn_memory_info out{};
    out.size = sizeof out;
    must([&](tn_error* e) { return plugin().device->memory_info(device, &out, e); });
    CHECK(out.total_bytes >= out.free_bytes);
    return out.used_here_bytes;
  };
  CHECK(used() == 0);
  {
    const Memory memory = allocate(device, 12'345);
    CHECK(used() == 12'345);
  }
  CHECK(used() == 0);
}

TEST_CASE("copy: memory to memory, host to memory and back, of small and large sizes") {
  Bench bench;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{4097}, (uint64_t{3} << 20) + 7}) {
    const std::vector<std::byte> source = noise(bytes, bytes);
    std::vector<std::byte> back(bytes);
    const Memory a = allocate(bench.device, bytes + 64), b = allocate(bench.device, bytes + 64);
    copy(bench.stream, span(a, 32, bytes), host_span(source.data(), bytes));
    copy(bench.stream, span(b, 5, bytes), span(a, 32, bytes));
    copy(bench.stream, host_span(back.data(), bytes), span(b, 5, bytes));
    CHECK(back == source);
  }
}

TEST_CASE("copy: a pageable source is consumed on return") {
  Bench bench;
  const Memory memory = allocate(bench.device, 4096 * 64);
  std::vector<std::byte> source(4096);
  for (int i = 0; i < 64; ++i) {
    std::fill(source.begin(), source.end(), static_cast<std::byte>(i));
    copy(bench.stream, span(memory, static_cast<uint64_t>(i) * 4096, 4096), host_span(source.data(), 4096));
    std::fill(source.begin(), source.end(), std::byte{0xEE});
  }
  drain(bench.stream);
  for (int i = 0; i < 64; ++i) CHECK(address(memory)[i * 4096 + 4095] == static_cast<std::byte>(i));
}

TEST_CASE("copy: zero bytes go anywhere, and enqueue nothing wrong") {
  Bench bench;
  const Memory memory = allocate(bench.device, 0);
  copy(bench.stream, span(memory, 0, 0), host_span(nullptr, 0));
  copy(bench.stream, host_span(nullptr, 0), span(nullptr, 0, 0));
  drain(bench.stream);
}

TEST_CASE("copy: overlap, unequal sizes and ranges outside the memory are refused in words") {
  Bench bench;
  const Memory memory = allocate(bench.device, 100);
  const auto refused = [&](const tn_span& dst, const tn_span& src, const char* words) {
    const Outcome out =
        outcome_of([&](tn_error* e) { return plugin().stream->copy(bench.stream, &dst, &src, e); });
    CHECK(out.code == TN_INVALID);
    CHECK_MESSAGE(out.says(words), out.message());
  };
  refused(span(memory, 0, 60), span(memory, 40, 60), "overlap");
  refused(span(memory, 0, 10), span(memory, 50, 20), "equal");
  refused(span(memory, 50, 60), span(memory, 0, 60), "outside");
  copy(bench.stream, span(memory, 0, 50), span(memory, 50, 50));
  drain(bench.stream);
}

TEST_CASE("copy: a box of bytes lands where its strides say") {
  Bench bench;
  constexpr uint64_t planes = 3, rows = 4, bytes = 5;
  const std::vector<std::byte> source = noise(planes * 40, 9);
  const Memory memory = allocate(bench.device, 1000);
  fill(bench.stream, span(memory, 0, 1000), 0, 1);
  tn_copy_shape shape{};
  shape.size = sizeof shape;
  shape.rank = 3;
  const uint64_t extent[] = {planes, rows, bytes}, dst[] = {100, 7, 1}, src[] = {40, 10, 1};
  for (int i = 0; i < 3; ++i) {
    shape.extent[i] = extent[i];
    shape.dst_stride[i] = dst[i];
    shape.src_stride[i] = src[i];
  }
  const tn_span to = span(memory, 11, 900), from = host_span(source.data(), source.size());
  must([&](tn_error* e) { return plugin().stream->copy_strided(bench.stream, &to, &from, &shape, e); });
  drain(bench.stream);
  std::vector<std::byte> expected(1000);
  for (uint64_t p = 0; p < planes; ++p) {
    for (uint64_t r = 0; r < rows; ++r) {
      for (uint64_t i = 0; i < bytes; ++i) expected[11 + p * 100 + r * 7 + i] = source[p * 40 + r * 10 + i];
    }
  }
  CHECK(std::memcmp(address(memory), expected.data(), expected.size()) == 0);
}

TEST_CASE("fill: patterns of 1, 2, 4 and 8 bytes, and none of 3") {
  Bench bench;
  constexpr uint64_t pattern = 0x0123456789ABCDEFull;
  const Memory memory = allocate(bench.device, 4 << 20);
  for (const uint32_t unit : {1u, 2u, 4u, 8u}) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{777}, uint64_t{400'000}}) {
      fill(bench.stream, span(memory, 0, 4 << 20), 0, 1);
      fill(bench.stream, span(memory, 64, count * unit), pattern, unit);
      drain(bench.stream);
      bool right = address(memory)[63] == std::byte{0} && address(memory)[64 + count * unit] == std::byte{0};
      for (uint64_t i = 0; i < count; ++i)
        right = right && std::memcmp(address(memory) + 64 + i * unit, &pattern, unit) == 0;
      CHECK(right);
    }
  }
  const tn_span odd = span(memory, 0, 9);
  CHECK(plugin().stream->fill(bench.stream, &odd, 0, 3, nullptr) == TN_INVALID);
}
