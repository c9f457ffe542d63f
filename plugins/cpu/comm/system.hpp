// SPDX-License-Identifier: Apache-2.0
// system.hpp: what communicators ask of the operating system: memory that processes share, who is alive, and sleeping
// where another process can wake.
//
// Shared memory is a memfd: it has no name, so nothing is left of it when the last process that holds it ends.
// Invariant: nothing else in comm/ makes a system call, and nothing here keeps state.
#pragma once

#include "../driver.hpp"

#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace tenon::cpu::comm::system {

// Owns a file descriptor.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int number) noexcept : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd();

  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_ = -1;
};

// What two processes must have in common to open each other's memory: one boot of one kernel, one space of process
// numbers; and no other name given to their hosts.
struct Place {
  std::array<uint64_t, 2> boot{};
  uint64_t process_space = 0;
  uint64_t host = 0;  // of the name; 0: none
  bool operator==(const Place&) const = default;
};
// `host`: the name given to this host; "": none. [any-thread; may block; cannot fail]
Place here(std::string_view host) noexcept;
// The system's name for this machine. [any-thread; does not block; cannot fail]
std::string host_name();
// What identifies the network that this process sees, among all of this boot. [any-thread; does not block; cannot fail]
uint64_t network_space() noexcept;
int32_t process() noexcept;
uint64_t random() noexcept;

// Memory without a name, of no bytes yet. TN_NO_MEMORY. [any-thread; may block; may fail]
Result<Fd> make_memory(const char* what);
// Gives it `bytes` and asks the kernel for every page now: one that is missing is an error here and no signal later.
// TN_NO_MEMORY. [any-thread; may block; may fail]
Status reserve(const Fd& memory, uint64_t bytes);
// The same without asking for the pages. Neither raises a signal where files have a limit (ulimit -f). TN_NO_MEMORY.
// [any-thread; may block; may fail]
Status resize(const Fd& memory, uint64_t bytes);
// Descriptor `number` of process `pid`, opened here. TN_PEER_LOST when the process has ended, TN_UNSUPPORTED when this one
// may not. [any-thread; may block; may fail]
Result<Fd> open_in(int32_t pid, int number);
// What identifies a memory among all of this boot; 0 when it is none. [any-thread; does not block; cannot fail]
uint64_t inode_of(const Fd& memory) noexcept;
uint64_t bytes_of(const Fd& memory) noexcept;

// Copies out of the memory of process `pid`, whatever that memory is; false when it has ended, has not got it, or this one
// may not. [any-thread; may block; may fail]
bool read_from(int32_t pid, uint64_t address, std::span<std::byte> to) noexcept;

// nullptr when there is no room for it. [any-thread; may block; may fail]
std::byte* map(const Fd& memory, uint64_t bytes) noexcept;
void unmap(std::byte* at, uint64_t bytes) noexcept;

// Something that tells when process `pid` has ended; empty when the kernel has no such thing, or the process ended.
// [any-thread; does not block; may fail]
Fd watch(int32_t pid) noexcept;
// Whether it has; a process that nobody reaped has ended too. [any-thread; does not block; cannot fail]
bool has_ended(const Fd& watched, int32_t pid) noexcept;

// As driver::sleep_on and wake_all, for words that several processes map. [any-thread; blocks; cannot fail]
void sleep_on(std::atomic<uint32_t>& word, uint32_t expected, uint64_t deadline) noexcept;
void wake_all(std::atomic<uint32_t>& word) noexcept;

// `symbol` of the library `name` that lies in the folder of this plugin, unless everybody may write it; it stays open.
// TN_NOT_FOUND with the path and the reason. [any-thread; may block; may fail]
Result<void*> symbol_beside(const char* name, const char* symbol);

// What memory is mapped by.
inline constexpr uint64_t page = 4096;

// The two sides of "I wrote A, then look at B" against "I wrote B, then look at A", between processes. Those that take part may do
// the one without a fence, and whoever does the other lets all of them pass one.
// False where the kernel has no such thing. [any-thread; does not block; cannot fail]
bool take_part_in_fences() noexcept;
// Some microseconds. Where the kernel took it back since (a sandbox that was entered late), who sleeps finds what it missed when it looks
// again. [any-thread; does not block; cannot fail]
void fence_all() noexcept;

// The processors this thread may use, one bit each. [any-thread; does not block; cannot fail]
inline constexpr size_t processor_words = 16;
using Processors = std::array<uint64_t, processor_words>;
Processors processors() noexcept;

}  // namespace tenon::cpu::comm::system
