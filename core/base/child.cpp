// SPDX-License-Identifier: Apache-2.0
// child.cpp: see child.hpp.
//
// The child leads its own process group, so one kill reaches all it started. Its end is noticed by polling: pipes held
// open by a grandchild, a parent that ignores SIGCHLD and a foreign waitpid(-1) all leave this loop finite.
#include "base/child.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio_ext.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace tenon::base {
namespace {

constexpr size_t kept_bytes = 8 * 1024, kept_answer_bytes = 256 * 1024;
constexpr int first_free_fd = 10;  // above everything the child's own numbers can be

Status failure(const char* what, int number) {
  return Status(Error{.code = number == ENOENT || number == EACCES ? TN_NOT_FOUND : TN_INTERNAL,
                      .message = std::string(what) + ": " + std::strerror(number),
                      .domain = "errno",
                      .native_code = number});
}

struct Pipe {
  Fd read, write;
};

// Both ends are numbered past the child's 0 … 3, whatever this process has closed.
Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failure("cannot make a pipe", errno);
  const Fd low_read(ends[0]), low_write(ends[1]);
  Pipe pipe{Fd(fcntl(ends[0], F_DUPFD_CLOEXEC, first_free_fd)),
            Fd(fcntl(ends[1], F_DUPFD_CLOEXEC, first_free_fd))};
  if (!pipe.read || !pipe.write) return failure("cannot make a pipe", errno);
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

struct Pipes {
  Pipe output, errors, answer;
};

Result<Pipes> make_pipes() {
  Pipes out;
  for (Pipe* const pipe : {&out.output, &out.errors, &out.answer}) *pipe = TN_TRY(make_pipe());
  return out;
}

// Takes what is there now, and keeps `most` bytes in all. False at the end of the stream.
bool drain(const Fd& fd, std::string& kept, size_t most, uint64_t* total) {
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    const auto bytes = static_cast<size_t>(got);
    if (total != nullptr) *total += bytes;
    if (kept.size() < most) kept.append(piece.data(), std::min(bytes, most - kept.size()));
  }
}

class Watch {
 public:
  Watch(pid_t child, Pipes pipes) : child_(child), pipes_(std::move(pipes)) {
    pipes_.output.write.reset(), pipes_.errors.write.reset(), pipes_.answer.write.reset();
  }

  ChildEnd until(const Deadline& deadline) {
    bool over = has_ended();
    while (!over && !deadline.passed()) {
      listen(deadline);
      over = has_ended();
    }
    // The child is not reaped yet, so its number, which is its group's too, cannot belong to anybody else.
    kill(-child_, SIGKILL);
    reap(over);
    take_all();
    return std::move(end_);
  }

 private:
  // Also true when somebody else reaped it, or children are reaped by the system.
  bool has_ended() const noexcept {
    siginfo_t info{};
    const int got = waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT);
    return got == 0 ? info.si_pid == child_ : errno == ECHILD;
  }

  void reap(bool ended_by_itself) noexcept {
    int status = 0;
    pid_t got;
    do got = waitpid(child_, &status, 0);
    while (got < 0 && errno == EINTR);
    if (!ended_by_itself) {
      end_.how = ChildEnd::How::timed_out;
    } else if (got < 0) {
      end_.how = ChildEnd::How::unknown;
    } else if (WIFSIGNALED(status)) {
      end_.how = ChildEnd::How::signalled;
      end_.code = WTERMSIG(status);
    } else {
      end_.how = ChildEnd::How::exited;
      end_.code = WEXITSTATUS(status);
    }
  }

  // Sleeps until something is written or closed, the deadline passes, or a slice is over.
  void listen(const Deadline& deadline) {
    constexpr std::chrono::milliseconds slice(20);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    std::array<pollfd, 3> fds = {pollfd{open_output_ ? pipes_.output.read.get() : -1, POLLIN, 0},
                                 pollfd{open_errors_ ? pipes_.errors.read.get() : -1, POLLIN, 0},
                                 pollfd{open_answer_ ? pipes_.answer.read.get() : -1, POLLIN, 0}};
    // All closed means the child is at its very end: look again at once.
    const bool closing = !open_output_ && !open_errors_ && !open_answer_;
    poll(fds.data(), fds.size(), static_cast<int>(closing ? 1 : std::min(left, slice).count()));
    take_all();
  }

  void take_all() {
    open_output_ = open_output_ && drain(pipes_.output.read, end_.output, kept_bytes, &end_.output_bytes);
    open_errors_ = open_errors_ && drain(pipes_.errors.read, end_.errors, kept_bytes, nullptr);
    open_answer_ = open_answer_ && drain(pipes_.answer.read, end_.answer, kept_answer_bytes, nullptr);
  }

  pid_t child_;
  Pipes pipes_;
  ChildEnd end_;
  bool open_output_ = true, open_errors_ = true, open_answer_ = true;
};

// The attributes and file actions of posix_spawn, freed together.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  explicit SpawnPlan(const Pipes& pipes) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes.output.write.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes.errors.write.get(), STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes.answer.write.get(), answer_fd);
    posix_spawn_file_actions_addclosefrom_np(&actions, answer_fd + 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

void take_places(const Pipes& pipes) noexcept {
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(pipes.output.write.get(), STDOUT_FILENO);
  dup2(pipes.errors.write.get(), STDERR_FILENO);
  dup2(pipes.answer.write.get(), answer_fd);
  close_range(answer_fd + 1, ~0u, 0);
}

[[noreturn]] void run_child(const Pipes& pipes, const std::function<void()>& body) noexcept {
  setpgid(0, 0);
  // What the parent had printed and not yet flushed is the parent's to flush.
  __fpurge(stdout);
  __fpurge(stderr);
  take_places(pipes);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  become_expendable();
  body();
  leave();
}

void end_now(int status, void*) { _exit(status); }

}  // namespace

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
}

Result<ChildEnd> run_program(const std::string& path, const std::vector<std::string>& arguments,
                             std::chrono::milliseconds deadline) {
  Pipes pipes = TN_TRY(make_pipes());
  const SpawnPlan plan(pipes);
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int number = posix_spawn(&child, path.c_str(), &plan.actions, &plan.attributes, argv.data(), environ);
  if (number != 0) return failure(("cannot start " + path).c_str(), number);
  return Watch(child, std::move(pipes)).until(Deadline(deadline));
}

Result<ChildEnd> run_forked(const std::function<void()>& body, std::chrono::milliseconds deadline) {
  Pipes pipes = TN_TRY(make_pipes());
  const pid_t child = fork();
  if (child < 0) return failure("cannot fork", errno);
  if (child == 0) run_child(pipes, body);
  setpgid(child, child);
  return Watch(child, std::move(pipes)).until(Deadline(deadline));
}

void become_expendable() noexcept {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number :
       {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPIPE, SIGCHLD, SIGALRM, SIGTERM}) {
    std::signal(number, SIG_DFL);
  }
  // Exit handlers run last registered first, so those of the parent's program are never reached.
  on_exit(end_now, nullptr);
}

void answer_on_stdout() noexcept {
  if (fcntl(answer_fd, F_GETFD) < 0) dup2(STDOUT_FILENO, answer_fd);
}

void answer(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t put = write(answer_fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    text.remove_prefix(static_cast<size_t>(put));
  }
}

void leave() noexcept {
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace tenon::base
