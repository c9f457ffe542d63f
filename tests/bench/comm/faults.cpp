// SPDX-License-Identifier: Apache-2.0
// faults.cpp: three ranks sum without end; one is killed, or stopped, and the two that are left say when they were told.
//
// Invariant: times are of one clock, CLOCK_MONOTONIC, which all processes share; none of them is left running.
#include "../row.hpp"
#include "parts.hpp"
#include "player.hpp"

#include <tenon/tenon.hpp>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace bench {
namespace {

constexpr uint32_t trio = 3, victim = 1;
constexpr int times = 20;
constexpr int timeout_ms = 1'000;  // of the communicators
constexpr int word_ms = 10'000;    // that a word may take

// What a survivor writes: that it is at work, then when it was told of what.
struct Word {
  double at_ns = 0;
  int32_t code = 0;
};

struct Group {
  std::string meeting{};
  std::array<pid_t, trio> lives{};
  std::array<int, trio> words{};

  Group() {
    meeting = std::filesystem::temp_directory_path() / "tenon-bench-XXXXXX";
    if (mkdtemp(meeting.data()) == nullptr) std::perror("bench comm");
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    for (uint32_t rank = 0; rank < trio; ++rank) {
      int ends[2];
      if (pipe(ends) != 0) std::perror("bench comm");
      lives[rank] = fork();
      if (lives[rank] == 0) {
        const std::string number = std::to_string(rank), out = std::to_string(ends[1]),
                          milliseconds = std::to_string(timeout_ms);
        execl(self.c_str(), self.c_str(), "--mortal", number.c_str(), meeting.c_str(), out.c_str(),
              milliseconds.c_str(), nullptr);
        _exit(127);
      }
      close(ends[1]);
      words[rank] = ends[0];
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    for (uint32_t rank = 0; rank < trio; ++rank) {
      kill(lives[rank], SIGKILL);
      waitpid(lives[rank], nullptr, 0);
      close(words[rank]);
    }
    std::error_code none;
    std::filesystem::remove_all(meeting, none);
  }

  bool hear(uint32_t rank, Word& word) const {
    pollfd wait{.fd = words[rank], .events = POLLIN, .revents = 0};
    return poll(&wait, 1, word_ms) == 1 && read(words[rank], &word, sizeof word) == sizeof word;
  }
};

// Nanoseconds from the signal to the last survivor's error; negative when one was not told as it should.
double told_after(int signal, int32_t code) {
  const Group group;
  Word word;
  for (uint32_t rank = 0; rank < trio; ++rank) {
    if (!group.hear(rank, word)) return -1;
  }
  usleep(20'000);  // sums are under way
  const double begin = now_ns();
  kill(group.lives[victim], signal);
  double last = 0;
  for (uint32_t rank = 0; rank < trio; ++rank) {
    if (rank == victim) continue;
    if (!group.hear(rank, word) || word.code != code) return -1;
    last = std::max(last, word.at_ns);
  }
  return last - begin;
}

template <class Figure>
void measure(Row row, int signal, int32_t code, Figure&& figure) {
  for (int i = 0; i < times; ++i) {
    const double ns = told_after(signal, code);
    if (ns < 0) return left_out(row.name, "a survivor was told something else, or nothing");
    row.ours.push_back(figure(ns));
  }
  print(row);
}

}  // namespace

void faults() {
  note("lost ranks: three on one host, timeout " + std::to_string(timeout_ms) + " ms");
  measure({.name = "killed_peer_to_error", .unit = "ms", .median = true}, SIGKILL, TN_PEER_LOST,
          [](double ns) { return ns / 1e6; });
  measure({.name = "stopped_peer_over_timeout", .unit = "%", .median = true}, SIGSTOP, TN_TIMEOUT,
          [](double ns) { return (ns / 1e6 - timeout_ms) / timeout_ms * 100; });
}

int live_until_told(char** words) {
  const uint32_t rank = static_cast<uint32_t>(std::stoul(words[0]));
  const int out = std::stoi(words[2]);
  const auto timeout = std::chrono::milliseconds(std::stoi(words[3]));
  const auto tell = [&](int32_t code) {
    const Word word{now_ns(), code};
    return write(out, &word, sizeof word) == sizeof word;
  };
  const auto live = [&]() -> tenon::Status {
    const char* folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
    setenv("TENON_FLIGHT_DIR", words[1], 1);  // it ends with the meeting
    tenon::RuntimeOptions options{
        .use_environment = false, .use_install_path = false, .probe = tenon::Probe::off};
    options.log_level = tenon::LogLevel::error;
    options.search_path.push_back(folder != nullptr ? folder : BENCH_PLUGIN_DIR);
    options.options["cpu.threads"] = "1";
    tenon::Runtime runtime = TN_TRY(tenon::Runtime::open(std::move(options)));
    tenon::Device device = TN_TRY(runtime.device("cpu"));
    tenon::Stream stream = TN_TRY(device.stream());
    const tenon::Store store = TN_TRY(tenon::Store::in_folder(words[1]));
    tenon::Communicator comm =
        TN_TRY(tenon::Communicator::create(device, store, rank, trio, {.timeout = timeout}));
    const tenon::Buffer data = TN_TRY(device.allocate(stream, 1 << 20));
    TN_TRY(stream.fill(data, 0));
    for (bool first = true;; first = false) {
      TN_TRY(comm.all_reduce(stream, data, data, tenon::f32));
      TN_TRY(stream.sync());
      if (first && !tell(TN_OK)) return {};
    }
  };
  return tell(live().code()) ? 0 : 1;
}

}  // namespace bench
