// SPDX-License-Identifier: Apache-2.0
// driver.cpp: memfd, mmap, mprotect, sockets and clocks.
//
// Invariant: what is mapped here is unmapped by the object that holds it.
#include "driver.hpp"

#include <tenon/author/text.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

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

namespace {

Status no_socket(int32_t code, const char* call, const char* remedy) {
  const int number = errno;
  return Status(Error{.code = code,
                      .message = author::text(call, " failed: ", std::strerror(number), ": ", remedy),
                      .domain = "errno",
                      .native_code = number});
}

constexpr const char* too_many = "close some descriptors, or raise their limit (ulimit -n)";

// An address that begins with NUL is in no file system, and ends with its last socket.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)};
}

int make_socket(int flags) noexcept { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }

int64_t moved(ssize_t bytes) noexcept {
  if (bytes > 0) return bytes;
  return bytes < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

}  // namespace

Result<Socket> Socket::listen(const std::string& name) {
  Socket out(make_socket(SOCK_NONBLOCK));
  if (out.file_ < 0) return no_socket(TN_NO_MEMORY, "socket", too_many);
  const auto [address, length] = address_of(name);
  if (bind(out.file_, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(out.file_, 1024) != 0)
    return no_socket(TN_NO_MEMORY, "listening for ranks", too_many);
  return out;
}

Result<Socket> Socket::connect(const std::string& name) {
  Socket out(make_socket(0));  // to meet a door on this host takes no time
  if (out.file_ < 0) return no_socket(TN_NO_MEMORY, "socket", too_many);
  const auto [address, length] = address_of(name);
  if (::connect(out.file_, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return no_socket(TN_PEER_LOST, "reaching the process that made this id",
                     "it has ended, the communicator has, or it is on another host: make a new id");
  }
  (void)fcntl(out.file_, F_SETFL, O_NONBLOCK);
  return out;
}

Result<Socket> Socket::bell() {
  Socket out(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (out.file_ < 0) return no_socket(TN_NO_MEMORY, "eventfd", too_many);
  return out;
}

Socket::Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

Socket::~Socket() {
  if (file_ >= 0) close(file_);
}

std::optional<Socket> Socket::accept() const noexcept {
  const int file = accept4(file_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (file < 0) return std::nullopt;
  return Socket(file);
}

int64_t Socket::send(std::span<const std::byte> bytes) const noexcept {
  return moved(::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

int64_t Socket::receive(std::span<std::byte> room) const noexcept {
  return moved(recv(file_, room.data(), room.size(), 0));
}

void Socket::ring() const noexcept {
  const uint64_t one = 1;
  (void)!write(file_, &one, sizeof one);
}

void Socket::hush() const noexcept {
  uint64_t rung = 0;
  (void)!read(file_, &rung, sizeof rung);
}

void wait_for(std::span<Watch> watches, uint64_t timeout_ns) {
  std::vector<pollfd> files;
  for (const Watch& watch : watches)
    files.push_back({watch.file, static_cast<short>(watch.writes ? POLLIN | POLLOUT : POLLIN), 0});
  constexpr uint64_t day_ms = 86'400'000;
  const auto ms = static_cast<int>(std::min(timeout_ns / 1'000'000 + (timeout_ns % 1'000'000 != 0), day_ms));
  (void)poll(files.data(), files.size(), ms);
  for (size_t i = 0; i < files.size(); ++i) watches[i].ready = files[i].revents != 0;
}

uint64_t process() noexcept { return static_cast<uint64_t>(getpid()); }

uint64_t random_bits() noexcept {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = now_ns() ^ process() << 40;
  return bits;
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
