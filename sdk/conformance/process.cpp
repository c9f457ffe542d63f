// SPDX-License-Identifier: Apache-2.0
// process.cpp: posix_spawn, a packet socket for whole messages, and memory files that take the standard streams.
#include "conformance/process.hpp"

#include "conformance/protocol.hpp"
#include "conformance/words.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

extern char** environ;

namespace tenon::conform {

namespace {

constexpr off_t shown_bytes = 1500;  // of the beginning and of the end of a long output

Status failed(const char* what) {
  return Status(TN_INTERNAL, words("starting a worker: ", what, ": ", strerror(errno)));
}

void close_if_open(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}

// Descriptors and process group of the child.
struct Plan {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  Plan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

Result<Process> Process::start(const std::vector<std::string>& command, const std::string& first) {
  Process out;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return failed("socketpair");
  out.connection_ = ends[0];
  out.output_ = memfd_create("worker-output", MFD_CLOEXEC);
  out.errors_ = memfd_create("worker-errors", MFD_CLOEXEC);
  out.breadcrumb_ = memfd_create("worker-breadcrumb", MFD_CLOEXEC);
  const bool complete = out.output_ >= 0 && out.errors_ >= 0 && out.breadcrumb_ >= 0 &&
                        ftruncate(out.breadcrumb_, breadcrumb_bytes) == 0;
  Plan plan;
  posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&plan.actions, out.output_, 1);
  posix_spawn_file_actions_adddup2(&plan.actions, out.errors_, 2);
  posix_spawn_file_actions_adddup2(&plan.actions, ends[1], worker_descriptor);
  posix_spawn_file_actions_adddup2(&plan.actions, out.breadcrumb_, breadcrumb_descriptor);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int spawned = complete ? posix_spawn(&out.pid_, arguments[0], &plan.actions, &plan.attributes,
                                             arguments.data(), environ)
                               : errno;
  close(ends[1]);
  if (spawned != 0) {
    out.pid_ = -1;
    errno = spawned;
    return failed(arguments[0]);
  }
  send_message(out.connection_, first);
  return out;
}

Process::~Process() {
  if (pid_ > 0 && (!reaped_ || left_others())) kill();
  close_if_open(connection_);
  close_if_open(output_);
  close_if_open(errors_);
  close_if_open(breadcrumb_);
}

void Process::swap(Process& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(connection_, other.connection_);
  std::swap(output_, other.output_);
  std::swap(errors_, other.errors_);
  std::swap(breadcrumb_, other.breadcrumb_);
  std::swap(reaped_, other.reaped_);
  std::swap(killed_, other.killed_);
  std::swap(end_, other.end_);
}

std::optional<std::string> Process::receive() {
  pollfd waiting{connection_, POLLIN, 0};
  if (connection_ < 0 || poll(&waiting, 1, 0) <= 0) return {};
  auto message = receive_message(connection_);
  if (!message) {
    close(connection_);
    connection_ = -1;  // poll() ignores it from now on
  }
  return message;
}

std::optional<End> Process::ended() {
  if (reaped_) return end_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return {};
  reaped_ = true;
  end_ = {.exited = WIFEXITED(status),
          .status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .killed = killed_};
  return end_;
}

void Process::kill() {
  killed_ = true;
  ::kill(-pid_, SIGKILL);
  if (reaped_) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  reaped_ = true;
  end_ = {.exited = false, .status = 0, .signal = SIGKILL, .killed = true};
}

bool Process::left_others() const noexcept { return reaped_ && ::kill(-pid_, 0) == 0; }

std::string Process::excerpt(int descriptor) {
  const off_t size = lseek(descriptor, 0, SEEK_END);
  const auto part = [&](off_t begin, off_t bytes) {
    std::string out(static_cast<size_t>(bytes), '\0');
    const ssize_t got = pread(descriptor, out.data(), out.size(), begin);
    out.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return out;
  };
  if (size <= 0) return {};
  if (size <= 2 * shown_bytes) return part(0, size);
  return part(0, shown_bytes) + "\n…\n" + part(size - shown_bytes, shown_bytes);
}

bool send_message(int descriptor, const std::string& message) noexcept {
  while (true) {
    const ssize_t sent = send(descriptor, message.data(), message.size(), MSG_NOSIGNAL);
    if (sent >= 0) return true;
    if (errno != EINTR) return false;
  }
}

std::optional<std::string> receive_message(int descriptor) {
  std::string out;
  while (true) {
    const ssize_t size =
        recv(descriptor, nullptr, 0, MSG_PEEK | MSG_TRUNC);  // waits; the length of all of it
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return {};
    out.resize(static_cast<size_t>(size));
    const ssize_t got = recv(descriptor, out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    out.resize(static_cast<size_t>(got));
    return out;
  }
}

void wait_for_any(const std::vector<int>& descriptors, int milliseconds) {
  std::vector<pollfd> waiting;
  for (const int descriptor : descriptors) waiting.push_back({descriptor, POLLIN, 0});
  poll(waiting.data(), waiting.size(), milliseconds);
}

std::vector<std::string> own_command() {
  std::ifstream words_of("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> out;
  for (std::string word; std::getline(words_of, word, '\0');) out.push_back(word);
  if (!out.empty()) out[0] = "/proc/self/exe";
  return out;
}

std::string signal_name(int signal) {
  const char* abbreviation = sigabbrev_np(signal);
  const char* description = sigdescr_np(signal);
  return words("SIG", abbreviation != nullptr ? abbreviation : "?", " (",
               description != nullptr ? description : "unknown", ")");
}

}  // namespace tenon::conform
