// SPDX-License-Identifier: Apache-2.0
// child.hpp: runs something dangerous in a child process and tells how it ended.
//
// Invariant: the child and all it started are gone when `run_*` returns, at the latest a moment after the deadline; it
// inherits no descriptor but its own three and `answer_fd`, leaves no core file and dies with its parent.
#pragma once

#include <tenon/result.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon::base {

inline constexpr int answer_fd = 3;  // where the child writes its answer

struct ChildEnd {
  enum class How { exited, signalled, timed_out, unknown };  // unknown: somebody else reaped it
  How how = How::unknown;
  int code = 0;               // exit code, or signal
  std::string answer{};       // what came over `answer_fd`, at most 256 KiB
  std::string output{};       // standard output, at most some KiB
  uint64_t output_bytes = 0;  // all of it
  std::string errors{};       // standard error, at most some KiB
};

// "SIGSEGV", or "signal 47". [any-thread; does not block; cannot fail]
std::string signal_name(int number);

// Starts the program at `path`. TN_NOT_FOUND when it cannot be started. [any-thread; blocks; may fail]
Result<ChildEnd> run_program(const std::string& path, const std::vector<std::string>& arguments,
                             std::chrono::milliseconds deadline);

// Forks and calls `body`, then ends the child. Where another thread of this process holds a lock at that moment, the
// child may wait for it until the deadline; so this is the second choice. [any-thread; blocks; may fail]
Result<ChildEnd> run_forked(const std::function<void()>& body, std::chrono::milliseconds deadline);

// For the child itself: no core file, default signal actions, death with the parent, and `exit` called by anyone ends it
// without the exit handlers that were registered before. [first thing in the child; cannot fail]
void become_expendable() noexcept;
// Where nobody has opened `answer_fd`, as by hand, standard output takes its place. [child; does not block; cannot fail]
void answer_on_stdout() noexcept;
// Writes all of `text` to `answer_fd`. [child; may block; cannot fail]
void answer(std::string_view text) noexcept;
// Flushes what was printed, so that the parent sees it, and ends the child at once. [child]
[[noreturn]] void leave() noexcept;

}  // namespace tenon::base
