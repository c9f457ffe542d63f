// SPDX-License-Identifier: Apache-2.0
// peer.cpp: two pipes and a child.
#include "peer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string_view>

extern char** environ;

namespace bench {
namespace {

constexpr int patience_ms = 600'000;  // compiling a step of 161 tensors takes a minute

// The environment with `settings` in the place of what it says under their names.
std::vector<std::string> environment(const Peer::Settings& settings) {
  std::vector<std::string> out;
  for (const auto& [key, value] : settings) out.push_back(key + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view inherited(*entry);
    const bool replaced = std::any_of(settings.begin(), settings.end(), [&](const auto& setting) {
      return inherited.substr(0, inherited.find('=')) == setting.first;
    });
    if (!replaced) out.emplace_back(inherited);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Peer::Command Peer::python(const std::string& script, const std::vector<std::string>& arguments) {
  Command out{access(BENCH_PEERS_PYTHON, X_OK) == 0 ? BENCH_PEERS_PYTHON : "python3", script};
  out.insert(out.end(), arguments.begin(), arguments.end());
  return out;
}

Peer::Peer(Command command, const Settings& settings) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> variables = environment(settings);
  if (start(pointers(command), pointers(variables))) {
    const std::string said = read_line();
    if (said.starts_with("ready"))
      about_ = said.substr(said.size() > 6 ? 6 : 5);
    else
      give_up(said);
  } else {
    give_up(command[0] + " could not be started");
  }
}

bool Peer::start(const std::vector<char*>& words, const std::vector<char*>& variables) {
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0) return false;
  to_ = down[1];
  if (pipe2(up, O_CLOEXEC) != 0) {
    close(down[0]);
    return false;
  }
  from_ = up[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
  const bool started =
      posix_spawnp(&child_, words[0], &actions, nullptr, words.data(), variables.data()) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(down[0]);
  close(up[1]);
  if (!started) child_ = -1;
  return started;
}

Peer::~Peer() { give_up("it is over"); }

void Peer::give_up(const std::string& why) {
  if (why_.empty()) why_ = why;
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  to_ = from_ = -1;
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  child_ = -1;
}

std::string Peer::read_line() {
  for (size_t end; (end = unread_.find('\n')) == std::string::npos;) {
    pollfd ready{.fd = from_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, patience_ms) <= 0) {
      give_up("it did not answer for ten minutes");
      return "";
    }
    char text[512];
    const ssize_t got = read(from_, text, sizeof text);
    if (got <= 0) {
      give_up("its process ended by itself");
      return "";
    }
    unread_.append(text, static_cast<size_t>(got));
  }
  const size_t end = unread_.find('\n');
  const std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

void Peer::say(const std::string& line) {
  if (!why_.empty()) return;
  const std::string sent = line + "\n";
  if (write(to_, sent.data(), sent.size()) != static_cast<ssize_t>(sent.size()))
    give_up("its process ended by itself");
}

std::string Peer::hear() {
  const std::string answer = why_.empty() ? read_line() : "";
  return why_.empty() ? answer : "! " + why_;
}

std::string Peer::ask(const std::string& line) {
  say(line);
  return hear();
}

double Peer::figure(const std::string& line) {
  const std::string said = ask(line);
  char* end = nullptr;
  const double number = std::strtod(said.c_str(), &end);
  return end == said.c_str() || *end != '\0' ? -1 : number;
}

}  // namespace bench
