// SPDX-License-Identifier: Apache-2.0
// run_process.cpp: see run_process.hpp. fork and exec, because no attribute of posix_spawn lets a child die with its parent.
//
// Descriptors that others share are never made non-blocking: one is read or written only after poll says so, and written in
// pieces of PIPE_BUF, which a pipe that is ready takes whole.
#include "run_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

extern char** environ;

namespace tenon::tool::run {

namespace {

constexpr int first_free = 10;  // above everything a child's own numbers can be

Status failure(const std::string& what, int number) {
  return Status(Error{.code = number == ENOENT ? TN_NOT_FOUND : TN_INVALID,
                      .message = what + ": " + std::strerror(number),
                      .domain = "errno",
                      .native_code = number});
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

enum Step : int { in_folder, on_processors, by_exec };

struct Trouble {
  int step, number;
};

// What the child does between fork and exec: system calls only.
struct Launch {
  const Program& program;
  std::vector<char*> command, environment;
  cpu_set_t processors;
  int report;
  pid_t parent;

  [[noreturn]] void fail(Step step) const noexcept {
    const Trouble trouble{step, errno};
    (void)!write(report, &trouble, sizeof trouble);
    _exit(127);
  }

  void take_places() const noexcept {
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int from[] = {program.input, program.output, program.errors};
    for (int place = 0; place < 3; ++place) dup2(from[place] < 0 ? nothing : from[place], place);
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  }

  [[noreturn]] void run() const noexcept {
    setsid();
    if (program.dies_with_parent) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);  // it died before it could be told
    }
    for (int number = 1; number < NSIG; ++number) std::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    take_places();
    if (!program.folder.empty() && chdir(program.folder.c_str()) != 0) fail(in_folder);
    if (!program.processors.empty() && sched_setaffinity(0, sizeof processors, &processors) != 0)
      fail(on_processors);
    execvpe(command[0], command.data(), environment.data());
    fail(by_exec);
  }
};

cpu_set_t set_of(const std::vector<uint32_t>& processors) {
  cpu_set_t out;
  CPU_ZERO(&out);
  for (const uint32_t processor : processors) {
    if (processor < CPU_SETSIZE) CPU_SET(processor, &out);
  }
  return out;
}

std::string words_for(const Trouble& trouble, const Program& program) {
  if (trouble.step == in_folder) return "cannot start in the folder '" + program.folder + "'";
  if (trouble.step == on_processors) return "cannot be bound to its cores";
  return "cannot start '" + program.command[0] + "'";
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Every process's parent. A process may end while it is looked at; then it is left out.
std::map<pid_t, pid_t> parents() {
  std::map<pid_t, pid_t> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (!is_number(name)) continue;
    std::ifstream in(entry.path() / "stat");
    std::string line;
    std::getline(in, line);
    const size_t end = line.rfind(')');  // the name before it may hold anything
    if (end == std::string::npos || line.size() < end + 5) continue;
    pid_t parent = 0;
    std::from_chars(line.data() + end + 4, line.data() + line.size(), parent);
    out[static_cast<pid_t>(std::stol(name))] = parent;
  }
  return out;
}

}  // namespace

void Fd::reset() noexcept {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failure("cannot make a pipe", errno);
  const Fd low_read(ends[0]), low_write(ends[1]);
  Pipe out{Fd(fcntl(ends[0], F_DUPFD_CLOEXEC, first_free)), Fd(fcntl(ends[1], F_DUPFD_CLOEXEC, first_free))};
  if (!out.read || !out.write) return failure("cannot make a pipe", errno);
  return out;
}

Result<Fd> take_over(int descriptor) {
  Fd out(fcntl(descriptor, F_DUPFD_CLOEXEC, first_free));
  const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!out || !nothing) return failure("cannot take over a descriptor", errno);
  dup2(nothing.get(), descriptor);
  return out;
}

Result<pid_t> start(const Program& program) {
  Pipe report = TN_TRY(make_pipe());
  Launch launch{.program = program,
                .command = pointers(program.command),
                .environment = pointers(program.environment),
                .processors = set_of(program.processors),
                .report = report.write.get(),
                .parent = getpid()};
  const pid_t child = fork();
  if (child < 0) return failure("cannot fork", errno);
  if (child == 0) launch.run();
  report.write.reset();
  Trouble trouble{};
  ssize_t got;
  do got = read(report.read.get(), &trouble, sizeof trouble);
  while (got < 0 && errno == EINTR);
  if (got != sizeof trouble) return child;
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return failure(words_for(trouble, program), trouble.number);
}

int exit_code(int status) noexcept {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string end_story(int status) {
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const char* const name = sigabbrev_np(WTERMSIG(status));
  return "was killed by " +
         (name == nullptr ? "signal " + std::to_string(WTERMSIG(status)) : std::string("SIG") + name);
}

void adopt_orphans() noexcept { prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<Ended> reap() {
  std::vector<Ended> out;
  for (int status = 0;;) {
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid > 0) out.push_back({pid, status});
    if (pid == 0 || (pid < 0 && errno != EINTR)) break;
  }
  std::stable_partition(out.begin(), out.end(), [](const Ended& one) { return WIFSIGNALED(one.status); });
  return out;
}

bool childless() noexcept {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

void signal_descendants(int signal) {
  const std::map<pid_t, pid_t> all = parents();
  const pid_t self = getpid();
  for (const auto& [pid, parent] : all) {
    pid_t above = parent;
    for (size_t steps = 0; above > 1 && above != self && steps < all.size(); ++steps) {
      const auto next = all.find(above);
      above = next == all.end() ? 0 : next->second;
    }
    if (above == self) kill(pid, signal);
  }
}

Signals::Signals() {
  sigset_t set;
  sigemptyset(&set);
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  const Fd low(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  fd_ = Fd(fcntl(low.get(), F_DUPFD_CLOEXEC, first_free));
}

std::vector<int> Signals::take() {
  std::vector<int> out;
  for (signalfd_siginfo one{}; read(fd_.get(), &one, sizeof one) == sizeof one;) {
    if (one.ssi_signo != SIGCHLD) out.push_back(static_cast<int>(one.ssi_signo));
  }
  return out;
}

size_t Waiting::reads(int descriptor) {
  asked_.emplace_back(descriptor, false);
  return asked_.size() - 1;
}

size_t Waiting::writes(int descriptor) {
  asked_.emplace_back(descriptor, true);
  return asked_.size() - 1;
}

void Waiting::wait(std::chrono::milliseconds at_most) {
  std::vector<pollfd> entries;
  for (const auto& [number, writes] : asked_)
    entries.push_back({.fd = number, .events = static_cast<short>(writes ? POLLOUT : POLLIN), .revents = 0});
  (void)poll(entries.data(), entries.size(), static_cast<int>(std::max<int64_t>(at_most.count(), 0)));
  for (const pollfd& entry : entries) ready_.push_back(entry.revents != 0);
}

bool read_some(int descriptor, std::string& bytes) {
  std::array<char, 65536> piece;
  const ssize_t got = read(descriptor, piece.data(), piece.size());
  if (got > 0) bytes.append(piece.data(), static_cast<size_t>(got));
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

void read_rest(int descriptor, std::string& bytes) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  const size_t most = bytes.size() + (4 << 20);  // somebody else may go on writing for ever
  while (bytes.size() < most && poll(&entry, 1, 0) > 0 && read_some(descriptor, bytes)) {
  }
}

bool write_some(int descriptor, std::string& bytes) {
  const ssize_t put = write(descriptor, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
  if (put > 0) bytes.erase(0, static_cast<size_t>(put));
  return put >= 0 || errno == EINTR || errno == EAGAIN;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

}  // namespace tenon::tool::run
