// SPDX-License-Identifier: Apache-2.0
// memory_test.cpp: pages, slabs, pinned memory, and copies between all of them.
#include "world.hpp"

#include <numeric>

using namespace cuda_test;

namespace {

tn_memory_info info_of(tn_device* device) {
  tn_memory_info out{};
  out.size = sizeof out;
  must([&](tn_error* e) { return plugin().device->memory_info(device, &out, e); });
  return out;
}

Memory aligned(tn_device* device, uint64_t bytes, uint64_t alignment, uint32_t kind = TN_MEMORY_DEVICE) {
  tn_memory* memory = nullptr;
  must([&](tn_error* e) { return plugin().device->alloc(device, kind, bytes, alignment, &memory, e); });
  return Memory(memory);
}

std::vector<unsigned char> counting(size_t count) {
  std::vector<unsigned char> out(count);
  std::iota(out.begin(), out.end(), static_cast<unsigned char>(3));
  return out;
}

}  // namespace

TEST_CASE("memory: small requests share pages, and the pages go with the last of them") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const uint64_t before = info_of(device).used_here_bytes;
  {
    std::vector<Memory> many;
    for (int i = 0; i < 1000; ++i) many.push_back(allocate(device, 256));
    CHECK(info_of(device).used_here_bytes - before <= (2u << 20));
    CHECK(address(many[0]) != address(many[1]));
  }
  CHECK(info_of(device).used_here_bytes == before);
}

TEST_CASE("memory: every alignment asked for is granted, on the device and pinned") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  for (const uint32_t kind : {TN_MEMORY_DEVICE, TN_MEMORY_HOST}) {
    for (uint64_t alignment = 1; alignment <= (8u << 20); alignment *= 2) {
      const Memory memory = aligned(device, 100, alignment, kind);
      INFO(alignment);
      CHECK(address(memory) % std::max<uint64_t>(alignment, TN_MEMORY_ALIGNMENT) == 0);
    }
  }
}

TEST_CASE("memory: running out tells how much was asked for and how much is there, and loses nothing" *
          fake_only) {
  CUDA_DRIVER("oom_after=2");
  const World world;
  const Device device = open_device();
  const Memory first = allocate(device, 4 << 20);
  const uint64_t before = info_of(device).used_here_bytes;
  Memory second;
  const Outcome said = try_allocate(device, 3 << 20, second);
  CHECK(said.code == TN_NO_MEMORY);
  CHECK(said.says("asked for 3145728 bytes"));
  CHECK(said.says("bytes free"));
  CHECK(said.error.native_code == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(info_of(device).used_here_bytes == before);
  CHECK(try_allocate(device, 3 << 20, second).message() == "");
}

TEST_CASE("memory: managed memory is refused in words") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Memory memory;
  const Outcome said = try_allocate(device, 64, memory, TN_MEMORY_MANAGED);
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK(said.says("pinned host memory"));
}

TEST_CASE("memory: pinned memory has one address for the host and for the device") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory pinned = allocate(device, 1024, TN_MEMORY_HOST), there = allocate(device, 1024);
  auto* const bytes = reinterpret_cast<unsigned char*>(address(pinned));
  const auto wanted = counting(1024);
  std::copy(wanted.begin(), wanted.end(), bytes);
  copy(stream, span(there, 0, 1024), span(pinned, 0, 1024));
  fill(stream, span(pinned, 0, 1024), 0);
  copy(stream, span(pinned, 0, 512), span(there, 512, 512));
  drain(stream);
  CHECK(std::vector<unsigned char>(bytes, bytes + 512) ==
        std::vector<unsigned char>(wanted.begin() + 512, wanted.end()));
  CHECK(bytes[512] == 0);
}

TEST_CASE("memory: an ordinary source is read at once, whatever its size, though the stream is held up") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device), promises = make_stream(device);
  const size_t bytes = (5u << 20) + 77;
  const Memory memory = allocate(device, bytes);
  const uint64_t later = promise(promises);
  wait(stream, promises, later);
  std::vector<unsigned char> source = counting(bytes);
  const auto wanted = source;
  copy(stream, span(memory, 0, bytes),
       host_span(source.data(), bytes));  // comes back before the promise is kept
  std::fill(source.begin(), source.end(), static_cast<unsigned char>(0));
  CHECK(try_signal(promises, later).message() == "");
  CHECK(download(stream, span(memory, 0, bytes)) == wanted);
}

TEST_CASE("memory: copies reach the memory of another device" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device one = open_device(0), two = open_device(1);
  const Stream stream = make_stream(one), other = make_stream(two);
  const Memory here = allocate(one, 4096), there = allocate(two, 4096);
  fill(stream, span(here, 0, 4096), 0x1122, 2);
  copy(stream, span(there, 0, 4096), span(here, 0, 4096));
  wait(other, stream, record(stream));
  const auto got = download(other, span(there, 0, 4096));
  CHECK(got[0] == 0x22);
  CHECK(got[4095] == 0x11);
}

TEST_CASE("memory: fills of every width, at addresses that no wide store takes") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 4096);
  const uint64_t pattern = 0x8877665544332211;
  for (const uint32_t width : {1u, 2u, 4u, 8u}) {
    for (const uint64_t offset : {0u, 1u, 2u, 4u, 8u, 13u}) {
      INFO("width ", width, " at ", offset);
      fill(stream, span(memory, 0, 4096), 0xEE);
      fill(stream, span(memory, offset, 31 * width), pattern, width);
      const auto got = download(stream, span(memory, 0, 4096));
      bool good = got[offset + 31 * width] == 0xEE && (offset == 0 || got[offset - 1] == 0xEE);
      for (uint64_t i = 0; i < 31 * width; ++i)
        good = good && got[offset + i] == static_cast<unsigned char>(pattern >> (8 * (i % width)));
      CHECK(good);
    }
  }
}

TEST_CASE("memory: boxes of up to four dims move between device, pinned and ordinary memory") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const auto source = counting(4096);
  const Memory packed = allocate(device, 4096), back = allocate(device, 4096);
  tn_copy_shape box{.size = sizeof box,
                    .rank = 4,
                    .extent = {2, 3, 4, 5},
                    .dst_stride = {60, 20, 5, 1},
                    .src_stride = {1000, 200, 24, 1}};
  const auto strided = [&](const tn_span& dst, const tn_span& src) {
    must([&](tn_error* e) { return plugin().stream->copy_strided(stream, &dst, &src, &box, e); });
  };
  const Memory whole = allocate(device, 4096);
  copy(stream, span(whole, 0, 4096), host_span(source.data(), 4096));
  strided(span(packed, 0, 120), span(whole, 0, 4096));          // device to device
  strided(span(back, 0, 120), host_span(source.data(), 4096));  // ordinary memory to device
  std::vector<unsigned char> host(120);
  strided(host_span(host.data(), 120), span(whole, 0, 4096));  // device to ordinary memory
  drain(stream);
  std::vector<unsigned char> wanted;
  for (size_t a = 0; a < 2; ++a)
    for (size_t b = 0; b < 3; ++b)
      for (size_t c = 0; c < 4; ++c)
        for (size_t d = 0; d < 5; ++d) wanted.push_back(source[a * 1000 + b * 200 + c * 24 + d]);
  CHECK(download(stream, span(packed, 0, 120)) == wanted);
  CHECK(download(stream, span(back, 0, 120)) == wanted);
  CHECK(host == wanted);
}
