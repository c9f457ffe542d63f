// SPDX-License-Identifier: Apache-2.0
// run_process.hpp: the operating system's part of `tenon run`: programs started, listened to, waited for and ended.
//
// Invariant: whatever a started program starts is found again, also when it left its session or lost its parent, because
// this process adopts orphans (`adopt_orphans`) and looks for children of children in /proc.
#pragma once

#include <tenon/result.hpp>

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::tool::run {

// Owns a descriptor.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int number) noexcept : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  void reset() noexcept;

 private:
  int number_ = -1;
};

struct Pipe {
  Fd read, write;
};
// Closed on exec, both ends above the standard three. TN_NO_MEMORY. [any-thread; does not block; may fail]
Result<Pipe> make_pipe();
// The descriptor under a number above the standard three, closed on exec; the old number leads to /dev/null.
// [one thread; does not block; may fail]
Result<Fd> take_over(int descriptor);

struct Program {
  std::vector<std::string> command{};        // looked up in PATH
  std::vector<std::string> environment{};    // "NAME=value"
  std::string folder{};                      // to start in; empty: this one
  std::vector<uint32_t> processors{};        // to run on; empty: those of this process
  int input = -1, output = -1, errors = -1;  // -1: /dev/null
  bool dies_with_parent = false;
};
// Starts it in a session of its own, with the standard three descriptors only and default signals. The failure's native
// code is errno: ENOENT, EACCES. [one thread; may block; may fail]
Result<pid_t> start(const Program& program);

// What a shell would return: the exit code, or 128 + signal. [any-thread; does not block; cannot fail]
int exit_code(int status) noexcept;
// "ended with exit code 3", "was killed by SIGSEGV". [any-thread; does not block; cannot fail]
std::string end_story(int status);

// From now on orphans among this process's descendants become its children. [one thread; cannot fail]
void adopt_orphans() noexcept;
struct Ended {
  pid_t pid;
  int status;  // as of waitpid
};
// All children that have ended, those first that a signal killed: what the others ended with may be its consequence. [one thread; does not block; cannot fail]
std::vector<Ended> reap();
// Whether no child is left, not even one to reap. [one thread; does not block; cannot fail]
bool childless() noexcept;
// Sends `signal` to every descendant, children of children included. [one thread; may block; cannot fail]
void signal_descendants(int signal);

// Signals as something to read: SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT. Those that this process was told to ignore
// (nohup) stay ignored, SIGPIPE is ignored too. Threads that are started later do not see them either.
class Signals {
 public:
  // [main thread, before any other; cannot fail]
  Signals();
  int number() const noexcept { return fd_.get(); }
  // What has come, SIGCHLD left out. [one thread; does not block; cannot fail]
  std::vector<int> take();

 private:
  Fd fd_;
};

// Waits for descriptors. One that nobody asked about costs nothing.
class Waiting {
 public:
  // Returns the place to ask `ready` about. A negative descriptor is never ready.
  size_t reads(int descriptor);
  size_t writes(int descriptor);
  // [one thread; blocks; cannot fail]
  void wait(std::chrono::milliseconds at_most);
  bool ready(size_t place) const { return ready_[place]; }

 private:
  std::vector<std::pair<int, bool>> asked_;
  std::vector<bool> ready_;
};

// Of a descriptor that is ready: appends what is there. False at the end. [one thread; does not block; cannot fail]
bool read_some(int descriptor, std::string& bytes);
// The same while there is more, up to some MiB. [one thread; does not block; cannot fail]
void read_rest(int descriptor, std::string& bytes);
// Of a descriptor that is ready: takes off `bytes` what it accepts. False when the reader is gone.
// [one thread; does not block; cannot fail]
bool write_some(int descriptor, std::string& bytes);

// This process's variables, "NAME=value". [one thread; does not block; cannot fail]
std::vector<std::string> own_environment();
// 32 hexadecimal digits from the system's randomness. [any-thread; may block; may fail]
Result<std::string> secret();
// This machine's name. [any-thread; does not block; cannot fail]
std::string host_name();
// The address of an interface of this machine, by its name or by the address itself. TN_NOT_FOUND names those there are.
// [any-thread; may block; may fail]
Result<std::string> interface_address(const std::string& name);

}  // namespace tenon::tool::run
