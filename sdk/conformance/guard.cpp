// SPDX-License-Identifier: Apache-2.0
// guard.cpp: borders on the device are bytes that are read back, fences on the host are pages that fault.
#include "conformance/guard.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

namespace tenon::conform {

namespace {

std::byte border_byte(uint64_t place) { return static_cast<std::byte>(0xC0 | (place % 29)); }
constexpr std::byte poison{0x5C};

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Result<Guarded> Guarded::make(const Device& device, const Stream& stream, uint64_t bytes, uint64_t skew,
                              uint32_t kind) {
  Guarded out;
  out.bytes_ = bytes;
  out.skew_ = skew;
  out.memory_ = TN_TRY(device.alloc(bytes + skew + 2 * border, kind));
  Bytes image(out.memory_.bytes());
  for (uint64_t i = 0; i < image.size(); ++i) image[i] = border_byte(i);
  for (uint64_t i = 0; i < bytes; ++i) image[border + skew + i] = poison;
  TN_TRY(upload(stream, out.memory_.span(), image));
  return out;
}

Result<Bytes> Guarded::read(Context& t, const Stream& stream, const std::string& where) const {
  Bytes image = TN_TRY(download(stream, memory_.span()));
  const uint64_t begin = border + skew_, end = begin + bytes_;
  for (uint64_t i = 0; i < image.size(); ++i) {
    if ((i >= begin && i < end) || image[i] == border_byte(i)) continue;
    const std::string place =
        i < begin ? words(begin - i, " bytes before") : words(i - end + 1, " bytes past the end of");
    t.fail(words(where, ": a byte ", place, " the target was written"));
    break;
  }
  return Bytes(image.begin() + static_cast<int64_t>(begin), image.begin() + static_cast<int64_t>(end));
}

Status Guarded::expect(Context& t, const Stream& stream, std::span<const std::byte> expected,
                       const std::string& where) const {
  const Bytes found = TN_TRY(read(t, stream, where));
  same_bytes(t, expected, found, where);
  return {};
}

Fenced::Fenced(uint64_t bytes) : bytes_(bytes) {
  const uint64_t inner = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  mapped_ = inner + 2 * page_bytes();
  void* const pages = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<std::byte*>(pages);
  if (inner != 0 && mprotect(pages_ + page_bytes(), inner, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc();
  data_ = pages_ + page_bytes() + inner - bytes;
}

Fenced::Fenced(Fenced&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)),
      mapped_(other.mapped_),
      bytes_(other.bytes_),
      data_(other.data_) {}

Fenced::~Fenced() {
  if (pages_ != nullptr) munmap(pages_, mapped_);
}

}  // namespace tenon::conform
