// SPDX-License-Identifier: Apache-2.0
// driver.cpp: memfd, mmap, mprotect and clocks.
//
// Invariant: what is mapped here is unmapped by the object that holds it.
#include "driver.hpp"

#include <tenon/author/text.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace tenon::sim::driver {

namespace {

Status from_errno(const char* call, uint64_t bytes) {
  const int code = errno;
  return Status(Error{.code = TN_NO_MEMORY,
                      .message = author::text(call, " of ", bytes, " bytes failed: ", std::strerror(code),
                                              ": choose a smaller sim.memory_mib"),
                      .domain = "errno",
                      .native_code = code});
}

}  // namespace

Result<TwinPages> TwinPages::map(uint64_t bytes) {
  const int file = memfd_create("tenon-sim", MFD_CLOEXEC);
  if (file < 0) return from_errno("memfd_create", bytes);
  TwinPages out(nullptr, nullptr, bytes, file);
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) return from_errno("ftruncate", bytes);
  void* const inside = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (inside == MAP_FAILED) return from_errno("mmap", bytes);
  out.inside_ = static_cast<std::byte*>(inside);
  void* const outside = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (outside == MAP_FAILED) return from_errno("mmap", bytes);
  out.outside_ = static_cast<std::byte*>(outside);
  return out;
}

TwinPages::TwinPages(TwinPages&& other) noexcept
    : inside_(std::exchange(other.inside_, nullptr)),
      outside_(std::exchange(other.outside_, nullptr)),
      bytes_(other.bytes_),
      file_(std::exchange(other.file_, -1)) {}

TwinPages::~TwinPages() {
  if (inside_ != nullptr) munmap(inside_, bytes_);
  if (outside_ != nullptr) munmap(outside_, bytes_);
  if (file_ >= 0) close(file_);
}

Status TwinPages::expose(uint64_t offset, uint64_t bytes, bool touchable) const {
  const int rights = touchable ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (mprotect(outside_ + offset, bytes, rights) == 0) return {};
  return from_errno("mprotect", bytes);
}

void TwinPages::drop(uint64_t offset, uint64_t bytes) const noexcept {
  (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes));
}

uint64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void pass_time(uint64_t ns) noexcept {
  const timespec wanted{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, nullptr);
}

}  // namespace tenon::sim::driver
