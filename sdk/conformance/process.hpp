// SPDX-License-Identifier: Apache-2.0
// process.hpp: one worker process: started, listened to, ended. The kit's only file that knows how.
//
// Invariant: a worker and all it started are gone when its Process is; nothing a plugin does to its descriptors, its
// standard streams or its own life can block the runner.
#pragma once

#include "conformance/trail.hpp"

#include <tenon/result.hpp>

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace tenon::conform {

// How a process ended.
struct End {
  bool exited = false;  // with `status`; otherwise by `signal`
  int status = 0;
  int signal = 0;
  bool killed = false;  // by the runner
};

class Process {
 public:
  // Starts `command`, gives it descriptor 3 as its connection, and sends `first`. TN_INTERNAL with errno's words.
  // [one thread; may block; may fail]
  static Result<Process> start(const std::vector<std::string>& command, const std::string& first);
  Process() = default;
  Process(Process&& other) noexcept { swap(other); }
  Process& operator=(Process&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Process();

  pid_t pid() const noexcept { return pid_; }
  int connection() const noexcept { return connection_; }
  // The next whole message, if one is there. [one thread; does not block; cannot fail]
  std::optional<std::string> receive();
  // How it ended, once it has. [one thread; does not block; cannot fail]
  std::optional<End> ended();
  // Kills it and what it started. [one thread; does not block; cannot fail]
  void kill();
  // Whether a process it started still lives after its own end. [one thread; does not block; cannot fail]
  bool left_others() const noexcept;
  // The beginning and the end of what it wrote to standard error. [one thread; may block; cannot fail]
  std::string errors() const { return excerpt(errors_); }
  // The same of standard output. [one thread; may block; cannot fail]
  std::string output() const { return excerpt(output_); }
  // The calls it is in. [one thread; may block; may throw bad_alloc]
  Trail trail() const { return read_trail(breadcrumb_); }

 private:
  void swap(Process& other) noexcept;
  static std::string excerpt(int descriptor);
  pid_t pid_ = -1;
  int connection_ = -1, output_ = -1, errors_ = -1, breadcrumb_ = -1;
  bool reaped_ = false, killed_ = false;
  End end_{};
};

// Sends one whole message over `descriptor`. False when the connection is gone. [any-thread; may block; cannot fail]
bool send_message(int descriptor, const std::string& message) noexcept;
// Receives one whole message, waiting for it. [one thread; blocks; cannot fail]
std::optional<std::string> receive_message(int descriptor);
// Waits until one of `descriptors` has something to read or was closed, at most `milliseconds`.
// [one thread; blocks; cannot fail]
void wait_for_any(const std::vector<int>& descriptors, int milliseconds);
// The command that this process was started with, to be started again. [any-thread; may block; cannot fail]
std::vector<std::string> own_command();
// "SIGSEGV (segmentation fault)". [any-thread; does not block; cannot fail]
std::string signal_name(int signal);

}  // namespace tenon::conform
