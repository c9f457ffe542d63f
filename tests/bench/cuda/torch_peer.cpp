// SPDX-License-Identifier: Apache-2.0
// torch_peer.cpp: two pipes to torch_peer.py.
#include "torch_peer.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

extern char** environ;

namespace bench {

TorchPeer::TorchPeer(uint64_t bytes) {
  const char* python = access(BENCH_PEERS_PYTHON, X_OK) == 0 ? BENCH_PEERS_PYTHON : "python3";
  int down[2], up[2];
  why_ = "torch's process could not be started";
  if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
  const std::string size = std::to_string(bytes);
  const char* arguments[] = {python, BENCH_TORCH_PEER, size.c_str(), nullptr};
  const int status =
      posix_spawnp(&child_, python, &actions, nullptr, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(down[0]);
  close(up[1]);
  to_ = fdopen(down[1], "w");
  from_ = fdopen(up[0], "r");
  if (status != 0) {
    child_ = -1;
    return;
  }
  const std::string said = read_line();
  why_ = said == "ready" ? "" : said.empty() ? "torch's process ended by itself" : said;
}

TorchPeer::~TorchPeer() {
  if (to_ != nullptr) std::fclose(to_);
  if (from_ != nullptr) std::fclose(from_);
  if (child_ > 0) waitpid(child_, nullptr, 0);
}

std::string TorchPeer::read_line() {
  char line[256] = "";
  if (std::fgets(line, sizeof line, from_) == nullptr) return "";
  std::string out(line);
  while (!out.empty() && (out.back() == '\n' || out.back() == '"')) out.pop_back();
  return out;
}

double TorchPeer::add3_ns(const char* how) {
  std::fprintf(to_, "%s\n", how);
  std::fflush(to_);
  const std::string said = read_line();
  return said.empty() || said[0] == '!' ? -1 : std::strtod(said.c_str(), nullptr);
}

}  // namespace bench
