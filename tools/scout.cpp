// SPDX-License-Identifier: Apache-2.0
// scout.cpp: see scout.hpp. Over a pipe come 's', a step's patience in seconds, a space and its words; at the end 'a' and the
// answer; each with a NUL behind it.
#include "scout.hpp"

#include "run_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon::tool {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

void tell(int pipe, std::string message) {
  message += '\0';
  while (!message.empty() && run::write_some(pipe, message)) {
  }
}

// An exception out of `work` ends it as a crash does.
[[noreturn]] void be_scout(int pipe, pid_t parent,
                           const std::function<std::string(const TellStep&)>& work) noexcept {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) std::signal(number, SIG_DFL);
  if (getppid() != parent) _exit(0);
  const TellStep step = [pipe](const std::string& words, std::chrono::seconds patience) {
    tell(pipe, "s" + std::to_string(patience.count()) + " " + words);
  };
  tell(pipe, "a" + work(step));
  _exit(0);
}

class Listener {
 public:
  Listener(pid_t child, run::Fd pipe, std::chrono::seconds patience)
      : child_(child), pipe_(std::move(pipe)), patience_(patience), until_(Clock::now() + patience) {}

  Scouted listen() {
    bool ended = false;
    while (!answered_ && !ended && Clock::now() < until_) {
      ended = has_ended();  // looked at first, so that what it said last is read below
      run::Waiting waiting;
      const size_t place = waiting.reads(pipe_.get());
      waiting.wait(milliseconds(ended ? 0 : 50));
      if (waiting.ready(place) && run::read_some(pipe_.get(), bytes_)) ended = false;
      take();
    }
    // Not reaped yet, so its number, which is its group's, belongs to nobody else.
    kill(-child_, SIGKILL);
    kill(child_, SIGKILL);
    const std::string end = reap();
    if (!answered_)
      out_.end = ended ? end : "did not come back within " + std::to_string(patience_.count()) + " s";
    return std::move(out_);
  }

 private:
  // Not by the end of the pipe, which whatever it started may hold.
  bool has_ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == child_;
  }

  // Takes whole messages off what has come.
  void take() {
    for (size_t end = bytes_.find('\0'); end != std::string::npos; end = bytes_.find('\0')) {
      const std::string message = bytes_.substr(0, end);
      bytes_.erase(0, end + 1);
      if (message.starts_with('a')) {
        answered_ = true;
        out_.answer = message.substr(1);
      } else if (const size_t space = message.find(' '); space != std::string::npos) {
        patience_ = std::chrono::seconds(std::atoll(message.c_str() + 1));
        until_ = Clock::now() + patience_;
        out_.step = message.substr(space + 1);
      }
    }
  }

  // How it ended. One that a driver holds in the kernel does not die: it is left behind.
  std::string reap() const {
    int status = 0;
    for (int tries = 0; tries < 200; ++tries) {
      const pid_t got = waitpid(child_, &status, WNOHANG);
      if (got == child_) return run::end_story(status);
      if (got < 0 && errno != EINTR) break;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return "does not end";
  }

  pid_t child_;
  run::Fd pipe_;
  std::chrono::seconds patience_;
  Clock::time_point until_;
  std::string bytes_{};
  bool answered_ = false;
  Scouted out_{};
};

}  // namespace

Scouted scout(const std::function<std::string(const TellStep&)>& work, std::chrono::seconds patience) {
  auto pipe = run::make_pipe();
  if (!pipe.ok()) return {.end = "could not be started: " + std::string(pipe.message())};
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return {.end = "could not be started: the system has no process left"};
  if (child == 0) be_scout(pipe->write.get(), parent, work);
  pipe->write.reset();
  return Listener(child, std::move(pipe->read), patience).listen();
}

}  // namespace tenon::tool
