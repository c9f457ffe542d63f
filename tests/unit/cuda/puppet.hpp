// SPDX-License-Identifier: Apache-2.0
// puppet.hpp: another process with the plugin and a device, which does what it is told.
//
// It is this test program again, with a case that obeys (obey, below), and a socket between the two. A case that forked
// instead would have a plugin that is good for nothing.
// Invariant: it ends with its Puppet, or when its connection does.
#pragma once

#include "world.hpp"

#include <tenon/ext/ipc.h>

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace cuda_test {

inline const tn_ipc_api& ipc() {
  const auto* const found = static_cast<const tn_ipc_api*>(plugin().extension(&plugin(), TN_IPC_ID));
  REQUIRE((found != nullptr));
  return *found;
}

// Tickets are strings here, so that they go into messages.
inline Outcome try_export(tn_memory* memory, std::string& ticket, tn_device* device) {
  uint64_t bytes = 0;
  must([&](tn_error* e) { return ipc().ticket_bytes(device, &bytes, e); });
  ticket.assign(bytes, '\0');
  return outcome_of(
      [&](tn_error* e) { return ipc().export_memory(memory, ticket.data(), ticket.size(), e); });
}
inline std::string export_of(tn_memory* memory, tn_device* device) {
  std::string out;
  const Outcome said = try_export(memory, out, device);
  if (!said.ok()) FAIL(said.message());
  return out;
}
inline Outcome try_open_ticket(tn_device* device, const std::string& ticket, Memory& out) {
  tn_memory* made = nullptr;
  Outcome said = outcome_of(
      [&](tn_error* e) { return ipc().open_memory(device, ticket.data(), ticket.size(), &made, e); });
  if (said.ok()) out = Memory(made);
  return said;
}

class Puppet {
 public:
  static constexpr int connection = 100;  // the descriptor it finds its socket at
  static constexpr const char* variable = "TENON_TEST_PUPPET";

  Puppet() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], connection);
    std::string self = "/proc/self/exe", filter = "-tc=ipc: (child) *";
    char* const arguments[] = {self.data(), filter.data(), nullptr};
    setenv(variable, "1", 1);
    const int failed = posix_spawn(&pid_, self.c_str(), &actions, nullptr, arguments, environ);
    unsetenv(variable);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = ends[0];
    REQUIRE(failed == 0);
  }
  Puppet(const Puppet&) = delete;
  Puppet& operator=(const Puppet&) = delete;
  ~Puppet() {
    close(socket_);
    CHECK((ended_ || end() == 0));
  }

  // "nN": its memory is N bytes; "o" and a ticket: opens it; "aN": allocates N bytes; "x": exports; "r": reads; "wN": fills with
  // N; "f": frees. Its answer, for a call that failed "CODE words".
  std::string tell(const std::string& order) const {
    REQUIRE(send(socket_, order.data(), order.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(order.size()));
    std::string out(1 << 16, '\0');
    const ssize_t came = recv(socket_, out.data(), out.size(), 0);
    REQUIRE(came >= 0);
    out.resize(static_cast<size_t>(came));
    return out;
  }
  // Of 256 bytes that it allocates.
  std::string ticket_of_256() const {
    CHECK(tell("a256") == "done");
    return tell("x");
  }
  void send_signal(int number) const { kill(pid_, number); }
  // Until all its threads stand still.
  void stop() const {
    send_signal(SIGSTOP);
    int status = 0;
    while (waitpid(pid_, &status, WUNTRACED) == pid_ && !WIFSTOPPED(status)) {
    }
  }
  void kill_it() {
    send_signal(SIGKILL);
    end();
  }

 private:
  int end() {
    int status = 0;
    ended_ = true;
    return waitpid(pid_, &status, 0) == pid_ ? status : -1;
  }
  pid_t pid_ = -1;
  int socket_ = -1;
  bool ended_ = false;
};

// The same byte all over, as its number; "mixed" otherwise.
inline std::string content(tn_stream* stream, tn_memory* memory, uint64_t bytes) {
  const auto found = download(stream, span(memory, 0, bytes));
  for (const unsigned char byte : found)
    if (byte != found.front()) return "mixed";
  return found.empty() ? "nothing" : std::to_string(found.front());
}

// What the puppet's case does.
inline void obey() {
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  Memory memory;
  uint64_t bytes = 0;
  std::string order(1 << 16, '\0');
  for (ssize_t came = 0; (came = recv(Puppet::connection, order.data(), order.size(), 0)) > 0;) {
    const std::string rest = order.substr(1, static_cast<size_t>(came) - 1);
    std::string answer = "done";
    Outcome said;
    if (order[0] == 'n') bytes = std::stoull(rest);
    if (order[0] == 'o') said = try_open_ticket(device, rest, memory);
    if (order[0] == 'r') answer = content(stream, memory, bytes);
    if (order[0] == 'f') memory.reset();
    if (order[0] == 'a') said = try_allocate(device, bytes = std::stoull(rest), memory);
    if (order[0] == 'x') said = try_export(memory, answer, device);
    if (order[0] == 'w') {
      fill(stream, span(memory, 0, bytes), std::stoull(rest));
      drain(stream);
    }
    if (!said.ok()) answer = std::to_string(said.code) + " " + said.message();
    REQUIRE(send(Puppet::connection, answer.data(), answer.size(), MSG_NOSIGNAL) > 0);
  }
}

}  // namespace cuda_test
