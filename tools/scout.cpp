// SPDX-License-Identifier: Apache-2.0
// scout.cpp: see scout.hpp. Over a pipe come 's' and the words of a step, 'a' and the answer, each with a NUL behind it.
#include "scout.hpp"

#include "run_process.hpp"

#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon::tool {
namespace {

void tell(int pipe, char kind, std::string words) {
  words.insert(words.begin(), kind);
  words += '\0';
  while (!words.empty() && run::write_some(pipe, words)) {
  }
}

[[noreturn]] void be_scout(int pipe, pid_t parent, const std::function<std::string(const TellStep&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  tell(pipe, 'a', work([pipe](const std::string& step) { tell(pipe, 's', step); }));
  _exit(0);
}

// Takes whole messages off `bytes`.
void take(std::string& bytes, Scouted& out, bool& answered) {
  for (size_t end = bytes.find('\0'); end != std::string::npos; end = bytes.find('\0')) {
    const bool answer = bytes[0] == 'a';
    answered = answered || answer;
    (answer ? out.answer : out.step) = bytes.substr(1, end - 1);
    bytes.erase(0, end + 1);
  }
}

// Until the answer or the child's end. False: a step lasted longer than `patience`.
bool listen(int pipe, std::chrono::milliseconds patience, Scouted& out, bool& answered) {
  using Clock = std::chrono::steady_clock;
  std::string bytes;
  auto until = Clock::now() + patience;
  while (!answered) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return false;
    run::Waiting waiting;
    const size_t place = waiting.reads(pipe);
    waiting.wait(left);
    if (!waiting.ready(place)) continue;
    if (!run::read_some(pipe, bytes)) return true;
    take(bytes, out, answered);
    until = Clock::now() + patience;
  }
  return true;
}

std::string end_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return "ended, nobody knows how";
  }
  return run::end_story(status);
}

}  // namespace

Scouted scout(const std::function<std::string(const TellStep&)>& work, std::chrono::seconds patience) {
  auto pipe = run::make_pipe();
  if (!pipe.ok()) return {.end = "could not be started: " + std::string(pipe.message())};
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return {.end = "could not be started: the system has no process left"};
  if (child == 0) be_scout(pipe->write.get(), parent, work);
  pipe->write.reset();
  Scouted out;
  bool answered = false;
  const bool in_time = listen(pipe->read.get(), patience, out, answered);
  if (!in_time) kill(child, SIGKILL);
  const std::string end = end_of(child);
  if (!in_time) {
    out.end = "did not come back within " + std::to_string(patience.count()) + " s";
  } else if (!answered) {
    out.end = end;
  }
  return out;
}

}  // namespace tenon::tool
