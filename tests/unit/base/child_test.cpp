// SPDX-License-Identifier: Apache-2.0
// Children end as they end, and are gone afterwards.
#include "base/child.hpp"
#include "base/clock.hpp"

#include "support/skip.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace base = tenon::base;
using base::ChildEnd;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;  // far beyond what anything here needs

ChildEnd forked(const std::function<void()>& body, std::chrono::milliseconds deadline = patience) {
  auto end = base::run_forked(body, deadline);
  REQUIRE(end.ok());
  return std::move(end).take();
}

ChildEnd shell(const std::string& script, std::chrono::milliseconds deadline = patience) {
  auto end = base::run_program("/bin/sh", {"-c", script}, deadline);
  REQUIRE(end.ok());
  return std::move(end).take();
}

}  // namespace

TEST_CASE("child: answer, output and errors come over three ways") {
  const ChildEnd end = shell("echo out; echo err >&2; printf answer >&3");
  CHECK(end.how == ChildEnd::How::exited);
  CHECK(end.code == 0);
  CHECK(end.output == "out\n");
  CHECK(end.output_bytes == 4);
  CHECK(end.errors == "err\n");
  CHECK(end.answer == "answer");
}

TEST_CASE("child: exit codes and signals are told apart") {
  CHECK(shell("exit 7").code == 7);
  const ChildEnd killed = shell("kill -SEGV $$");
  CHECK(killed.how == ChildEnd::How::signalled);
  CHECK(killed.code == SIGSEGV);
  CHECK(base::signal_name(SIGSEGV) == "SIGSEGV");
  CHECK(base::signal_name(9999) == "signal 9999");
}

TEST_CASE("child: a program that cannot be started is TN_NOT_FOUND") {
  char none[] = "/nonexistent/program";
  char* arguments[] = {none, nullptr};
  if (pid_t child = 0; posix_spawn(&child, none, nullptr, nullptr, arguments, environ) == 0) {
    waitpid(child, nullptr, 0);
    TENON_SKIP("vfork",
               "here posix_spawn does not tell that a program cannot be started, as under qemu-user");
  }
  CHECK(base::run_program("/nonexistent/program", {}, patience).code() == TN_NOT_FOUND);
}

TEST_CASE("child: one that hangs is stopped at the deadline") {
  const uint64_t start = base::now_ns();
  const ChildEnd end = shell("while :; do :; done", 200ms);
  CHECK(end.how == ChildEnd::How::timed_out);
  CHECK(base::now_ns() - start >= 200'000'000);
}

TEST_CASE("child: what it started is gone with it, and its open pipes keep nobody waiting") {
  const uint64_t start = base::now_ns();
  const ChildEnd end = shell("sleep 1000 & printf $! >&3");
  CHECK(end.how == ChildEnd::How::exited);
  CHECK(base::now_ns() - start < 30'000'000'000);
  const pid_t grandchild = static_cast<pid_t>(std::stol(end.answer));
  // It was killed; whoever inherits it may take a moment to reap it, so look for a living one only.
  const std::string stat = "/proc/" + std::to_string(grandchild) + "/stat";
  bool alive = true;
  for (int i = 0; i < 1'000'000 && alive; ++i) {
    std::FILE* file = std::fopen(stat.c_str(), "r");
    char state = 'Z';
    if (file != nullptr) {
      if (std::fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
      std::fclose(file);
    }
    alive = state != 'Z' && state != 'X';
  }
  CHECK_FALSE(alive);
}

TEST_CASE("child: much output is counted, kept in part, and never blocks the child") {
  const ChildEnd end = shell("head -c 3000000 /dev/zero; printf done >&3");
  CHECK(end.output_bytes == 3'000'000);
  CHECK(end.output.size() < 20'000);
  CHECK(end.answer == "done");
}

TEST_CASE("child: no descriptor of this process is inherited") {
  const int mine = fcntl(STDERR_FILENO, F_DUPFD, 20);  // without close-on-exec
  REQUIRE(mine >= 20);
  CHECK(shell("test -e /dev/fd/" + std::to_string(mine)).code != 0);
  const ChildEnd end = forked([mine] { base::answer(fcntl(mine, F_GETFD) < 0 ? "closed" : "open"); });
  close(mine);
  CHECK(end.answer == "closed");
}

TEST_CASE("child: a forked one answers, crashes, hangs and exits like a started one") {
  CHECK(forked([] { base::answer("hello"); }).answer == "hello");
  const ChildEnd crashed = forked([] { std::raise(SIGSEGV); });
  CHECK(crashed.how == ChildEnd::How::signalled);
  CHECK(crashed.code == SIGSEGV);
  CHECK(forked(
            [] {
              for (;;) pause();
            },
            100ms)
            .how == ChildEnd::How::timed_out);
  CHECK(forked([] { std::abort(); }).code == SIGABRT);
}

TEST_CASE("child: exit called inside a fork does not run this program's exit handlers") {
  static const pid_t self = getpid();
  std::atexit([] {
    if (getpid() != self) base::answer("handler ran");
  });
  const ChildEnd end = forked([] { std::exit(5); });
  CHECK(end.how == ChildEnd::How::exited);
  CHECK(end.code == 5);
  CHECK(end.answer == "");
}

TEST_CASE("child: what this program printed before and did not flush is not the child's") {
  std::fputs("a line that stays in the buffer", stdout);
  const ChildEnd end = forked([] { std::fputs("own", stdout); });
  CHECK(end.output == "own");
  std::fputs("\n", stdout);
}

TEST_CASE("child: a parent that ignores SIGCHLD still gets the answer") {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const ChildEnd end = shell("printf yes >&3; exit 3");
  std::signal(SIGCHLD, before);
  CHECK(end.answer == "yes");
  CHECK(end.how == ChildEnd::How::unknown);
}
