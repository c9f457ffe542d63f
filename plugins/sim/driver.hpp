// SPDX-License-Identifier: Apache-2.0
// driver.hpp: the native side of this plugin: pages that appear twice, local sockets, and clocks.
//
// Invariant: nothing outside driver.cpp makes a system call of its own.
#pragma once

#include <tenon/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon::sim::driver {

inline constexpr uint64_t page_bytes = 4096;

// The same pages at two places: `inside` is the device's and always open, `outside` is what the host is told, and faults
// when touched unless it was exposed.
class TwinPages {
 public:
  // TN_NO_MEMORY with errno in native_code. `bytes` is a multiple of the page. [any-thread; may block; may fail]
  static Result<TwinPages> map(uint64_t bytes);
  TwinPages(TwinPages&& other) noexcept;
  TwinPages& operator=(TwinPages&&) = delete;
  ~TwinPages();

  std::byte* inside() const noexcept { return inside_; }
  std::byte* outside() const noexcept { return outside_; }
  uint64_t bytes() const noexcept { return bytes_; }
  // Lets the host touch whole pages, or forbids it again. [any-thread; may block; may fail]
  Status expose(uint64_t offset, uint64_t bytes, bool touchable) const;
  // Gives the memory behind whole pages back to the machine; they read as zero. [any-thread; may block; cannot fail]
  void drop(uint64_t offset, uint64_t bytes) const noexcept;

 private:
  TwinPages(std::byte* inside, std::byte* outside, uint64_t bytes, int file) noexcept
      : inside_(inside), outside_(outside), bytes_(bytes), file_(file) {}

  std::byte *inside_, *outside_;
  uint64_t bytes_;
  int file_;
};

// A stream socket between processes of this host, or a bell that wakes who waits. Nothing here blocks.
class Socket {
 public:
  // Names live in no folder, so nothing is left behind. TN_PEER_LOST when nobody listens there; TN_NO_MEMORY with errno when
  // there are no descriptors. [any-thread; does not block; may fail]
  static Result<Socket> listen(const std::string& name);
  static Result<Socket> connect(const std::string& name);
  static Result<Socket> bell();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  // The next who has come; nothing when there is none. [any-thread; does not block; cannot fail]
  std::optional<Socket> accept() const noexcept;
  // Bytes that went, 0 when none can go now, negative when the other side is gone. [any-thread; does not block; cannot fail]
  int64_t send(std::span<const std::byte> bytes) const noexcept;
  int64_t receive(std::span<std::byte> room) const noexcept;
  void ring() const noexcept;
  void hush() const noexcept;
  int file() const noexcept { return file_; }

 private:
  explicit Socket(int file) noexcept : file_(file) {}
  int file_;
};

// What is waited for, and what has come of it.
struct Watch {
  int file = -1;
  bool writes = false;  // room to write is waited for, too
  bool ready = false;
};
// Until one is ready or the time is over. [any-thread; blocks; cannot fail]
void wait_for(std::span<Watch> watches, uint64_t timeout_ns);

// [any-thread; does not block; cannot fail]
uint64_t process() noexcept;
uint64_t random_bits() noexcept;

// CLOCK_MONOTONIC in ns. [any-thread; does not block; cannot fail]
uint64_t now_ns() noexcept;
// Takes that long. [any-thread; blocks; cannot fail]
void pass_time(uint64_t ns) noexcept;

}  // namespace tenon::sim::driver
