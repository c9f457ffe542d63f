// SPDX-License-Identifier: Apache-2.0
// contestant.cpp: processes, their sockets, and the patience with them.
#include "contestant.hpp"

#include "../row.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

extern char** environ;

namespace bench {
namespace {

constexpr int patience_ms = 60'000;
constexpr double run_us = 20'000, most_repeats = 20'000;

std::string filled(std::string word, const std::string& name, const std::string& value) {
  const size_t at = word.find(name);
  return at == std::string::npos ? word : word.replace(at, name.size(), value);
}

// What it prints goes to our standard error: standard output is the report's.
pid_t spawned(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t child = -1;
  const int refused = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return refused == 0 ? child : -1;
}

int listening_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(socket, 64) == 0)
    return socket;
  close(socket);
  return -1;
}

bool readable(int file) {
  pollfd wait{.fd = file, .events = POLLIN, .revents = 0};
  return poll(&wait, 1, patience_ms) == 1;
}

}  // namespace

Contestant::Contestant(std::string name, uint32_t size, const std::vector<Command>& commands, uint32_t ways)
    : name_(std::move(name)), size_(size), ways_(ways), sockets_(size, -1) {
  folder_ = std::filesystem::temp_directory_path() / "tenon-bench-XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr)
    give_up("cannot make " + folder_);
  else
    start(commands);
}

Contestant::~Contestant() {
  give_up("over");
  std::error_code none;
  std::filesystem::remove_all(folder_, none);
}

void Contestant::start(const std::vector<Command>& commands) {
  const std::string path = folder_ + "/socket", meeting = folder_ + "/meeting";
  std::filesystem::create_directory(meeting);
  const int listening = listening_at(path);
  if (listening < 0) return give_up("cannot listen at " + path);
  for (uint32_t rank = 0; rank < commands.size(); ++rank) {
    Command words;
    for (const std::string& word : commands[rank])
      words.push_back(filled(filled(filled(word, "{socket}", path), "{meeting}", meeting), "{rank}",
                             std::to_string(rank)));
    const pid_t child = spawned(std::move(words));
    if (child < 0) {
      close(listening);
      return give_up(commands[rank][0] + " could not be started");
    }
    children_.push_back(child);
  }
  wait_for_ranks(listening);
  close(listening);
}

void Contestant::wait_for_ranks(int listening) {
  for (uint32_t entered = 0; entered < size_; ++entered) {
    uint32_t rank = 0;
    if (!readable(listening)) return give_up("its ranks did not come");
    const int socket = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return give_up("its ranks did not come");
    if (!readable(socket) || recv(socket, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank >= size_ ||
        sockets_[rank] >= 0) {
      close(socket);
      return give_up("one that came is no rank of it");
    }
    sockets_[rank] = socket;
  }
}

void Contestant::give_up(const std::string& why) {
  if (why_.empty()) why_ = why;
  for (int& socket : sockets_) {
    if (socket >= 0) close(socket);
    socket = -1;
  }
  // Those that are well end by themselves now; the others are given a moment.
  for (const pid_t child : children_) {
    int waited = 0;
    for (; waited < 50 && waitpid(child, nullptr, WNOHANG) == 0; ++waited) poll(nullptr, 0, 100);
    if (waited < 50) continue;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  children_.clear();
}

double Contestant::ask(const Task& task) {
  if (!why_.empty()) return -1;
  for (const int socket : sockets_) {
    if (send(socket, &task, sizeof task, MSG_NOSIGNAL) == sizeof task) continue;
    give_up("a rank of it has ended");
    return -1;
  }
  double slowest = 0, fastest = 0;
  for (const int socket : sockets_) {
    Answer answer;
    if (!readable(socket) || recv(socket, &answer, sizeof answer, MSG_WAITALL) != sizeof answer) {
      give_up("a rank of it has ended, or hangs");
      return -1;
    }
    slowest = std::max(slowest, answer.seconds);
    fastest = std::min(fastest, answer.seconds);
  }
  return fastest < 0 ? fastest : slowest * 1e6;
}

// A short run would tell of waking more than of the work: its repeats grow until they fill the time.
double Contestant::run() {
  for (;;) {
    const double start = now_ns(), time = ask(task_), took_us = (now_ns() - start) / 1e3;
    if (time < 0 || took_us >= run_us / 2 || task_.repeats == most_repeats) return time;
    task_.repeats = static_cast<uint32_t>(std::clamp(task_.repeats * run_us / took_us, 1.0, most_repeats));
  }
}

void Contestant::aim(const Work& work) {
  double best = 0;
  uint32_t chosen = 0;
  for (uint32_t way = 0; way < ways_; ++way) {
    task_ = {.work = work, .repeats = 3, .way = way};
    ask(task_);  // warms up
    const double time = ask(task_);
    if (way == 0 || time < best) best = time, chosen = way;
  }
  task_.way = chosen;
  task_.repeats = 1;
}

bool Contestant::prepare(const Work& work) {
  for (uint32_t way = 0; way < ways_; ++way) {
    const Work check{.form = Form::check, .bytes = std::max<uint64_t>(work.bytes, sizeof(float))};
    if (ask({.work = check, .way = way}) < 0) {
      give_up("its sums are wrong");
      return false;
    }
  }
  aim(work);
  return why_.empty();
}

}  // namespace bench
