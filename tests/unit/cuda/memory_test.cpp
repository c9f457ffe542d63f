// SPDX-License-Identifier: Apache-2.0
// memory_test.cpp: pages, slabs, pinned memory, and copies between all of them.
#include "world.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
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

enum class Place { device, pinned, ordinary };

// Rows of `width` bytes, 2 by 3 by 4 of them at most, that lie apart in the source and close together in the result.
// Every stride is a multiple of the largest power of two in `width`, so rows can be taken in words of that size.
struct Box : tn_copy_shape {
  Box(uint32_t of_rank, uint64_t width) : tn_copy_shape{.size = sizeof(tn_copy_shape), .rank = of_rank} {
    constexpr uint64_t counts[] = {2, 3, 4};
    const uint64_t word = std::min<uint64_t>(width & (~width + 1), 16);
    uint64_t packed = width, apart = width + word;
    extent[rank - 1] = width;
    dst_stride[rank - 1] = src_stride[rank - 1] = 1;
    for (uint32_t i = rank - 1; i-- > 0;) {
      extent[i] = counts[i];
      dst_stride[i] = packed;
      src_stride[i] = apart;
      packed *= counts[i];
      apart = apart * counts[i] + 2 * word;
    }
    bytes = packed;
    from_bytes = apart;
  }
  // What the copy makes of `source`, read from byte `shift` on.
  std::vector<unsigned char> expected(const std::vector<unsigned char>& source, uint64_t shift = 0) const {
    std::vector<unsigned char> out(bytes);
    for (uint64_t i = 0; i < bytes; ++i) {
      uint64_t left = i, from = shift;
      for (uint32_t dim = rank; dim-- > 0; left /= extent[dim]) from += left % extent[dim] * src_stride[dim];
      out[i] = source[from];
    }
    return out;
  }
  uint64_t bytes = 0, from_bytes = 0;
};

// The same source, and room for a result, in each kind of memory.
class Places {
 public:
  Places(tn_device* device, const Box& box)
      : source_(counting(box.from_bytes + 64)), result_(box.bytes + 64) {
    for (const Place place : {Place::device, Place::pinned}) {
      const uint32_t kind = place == Place::device ? TN_MEMORY_DEVICE : TN_MEMORY_HOST;
      from_[index(place)] = allocate(device, source_.size(), kind);
      to_[index(place)] = allocate(device, result_.size(), kind);
    }
  }
  const std::vector<unsigned char>& source() const { return source_; }

  // The result of a copy from byte `shift` on; what lies around it must stay as it was.
  std::vector<unsigned char> copied(tn_stream* stream, const Box& box, Place from, Place to,
                                    uint64_t shift = 0) {
    constexpr uint64_t margin = 16;
    const tn_span whole = to == Place::ordinary ? host_span(result_.data(), result_.size())
                                                : span(to_[index(to)], 0, result_.size());
    tn_span src = from == Place::ordinary ? host_span(source_.data(), source_.size())
                                          : span(from_[index(from)], 0, source_.size());
    std::fill(result_.begin(), result_.end(), static_cast<unsigned char>(0xEE));
    if (from != Place::ordinary) copy(stream, src, host_span(source_.data(), source_.size()));
    if (to != Place::ordinary) fill(stream, whole, 0xEE);
    tn_span dst = whole;
    dst.offset += margin;
    dst.bytes -= margin;
    src.offset += shift;
    src.bytes -= shift;
    must([&](tn_error* e) { return plugin().stream->copy_strided(stream, &dst, &src, &box, e); });
    if (to != Place::ordinary) result_ = download(stream, whole);
    drain(stream);
    const auto begin = result_.begin() + margin, end = begin + static_cast<std::ptrdiff_t>(box.bytes);
    const auto untouched = [](unsigned char byte) { return byte == 0xEE; };
    CHECK(std::all_of(result_.begin(), begin, untouched));
    CHECK(std::all_of(end, result_.end(), untouched));
    return {begin, end};
  }

 private:
  static size_t index(Place place) { return static_cast<size_t>(place); }
  std::vector<unsigned char> source_, result_;
  std::array<Memory, 2> from_{}, to_{};
};

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

TEST_CASE("memory: running out of what can be page-locked tells the figures of the host" * fake_only) {
  CUDA_DRIVER("oom_after=1,memory=67108864");
  const World world;
  const Device device = open_device();
  Memory memory;
  const Outcome said = try_allocate(device, 3 << 20, memory, TN_MEMORY_HOST);
  CHECK(said.code == TN_NO_MEMORY);
  CHECK(said.says("asked for 3145728 bytes of page-locked host memory; the host has "));
  CHECK_FALSE(said.says("67108864"));  // the device's size
  const std::string all = std::to_string(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  CHECK_MESSAGE(said.says(("of " + all + " bytes free").c_str()), said.message());
  CHECK(said.error.native_code == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(try_allocate(device, 3 << 20, memory, TN_MEMORY_HOST).message() == "");
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

TEST_CASE("memory: many small ordinary sources are read at once, on streams that their own thread holds up") {
  CUDA_DRIVER("");
  constexpr size_t streams = 4, copies = 200, bytes = 64;
  const World world;
  const Device device = open_device();
  const Stream promises = make_stream(device);
  const uint64_t later = promise(promises);
  std::vector<Stream> held;
  for (size_t i = 0; i < streams; ++i) wait(held.emplace_back(make_stream(device)), promises, later);
  const Memory memory = allocate(device, streams * copies * bytes);
  const auto wanted = counting(streams * copies * bytes);
  for (size_t i = 0; i < streams * copies; ++i) {
    const std::vector<unsigned char> source(wanted.begin() + i * bytes, wanted.begin() + (i + 1) * bytes);
    copy(held[i % streams], span(memory, i * bytes, bytes), host_span(source.data(), bytes));
  }
  CHECK(try_signal(promises, later).message() == "");
  for (const Stream& stream : held) drain(stream);
  CHECK(download(held[0], span(memory, 0, wanted.size())) == wanted);
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

TEST_CASE(
    "memory: boxes of one to four dims and of every width move between device, pinned and ordinary memory") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  for (uint32_t rank = 1; rank <= 4; ++rank) {
    for (const uint64_t width : {2u, 4u, 5u, 8u, 16u, 48u, 64u}) {
      const Box box(rank, width);
      Places places(device, box);
      for (const Place from : {Place::device, Place::pinned, Place::ordinary}) {
        for (const Place to : {Place::device, Place::pinned, Place::ordinary}) {
          INFO("rank ", rank, ", rows of ", width, ", from ", static_cast<int>(from), " to ",
               static_cast<int>(to));
          CHECK(places.copied(stream, box, from, to) == box.expected(places.source()));
        }
      }
    }
  }
}

TEST_CASE("memory: a box at addresses that its width does not divide is copied in narrower words") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Box box(3, 16);
  Places places(device, box);
  for (const uint64_t shift : {0u, 1u, 2u, 4u, 8u}) {
    CAPTURE(shift);
    CHECK(places.copied(stream, box, Place::device, Place::device, shift) ==
          box.expected(places.source(), shift));
  }
}
