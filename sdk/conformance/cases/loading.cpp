// SPDX-License-Identifier: Apache-2.0
// loading.cpp: opening a plugin has no side effect, and it keeps its voice to the host's log.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cfenv>
#include <cfloat>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>

namespace tenon::conform {

namespace fs = std::filesystem;

namespace {

constexpr std::array watched_signals{SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT,
                                     SIGINT,  SIGTERM, SIGPIPE, SIGCHLD, SIGUSR1};

std::set<std::string> entries(const char* folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code gone;
    const auto target = fs::read_symlink(entry.path(), gone);
    if (target.native().ends_with("/fd")) continue;  // the descriptor that lists the folder
    out.insert(entry.path().filename().string() + (gone ? "" : " → " + target.string()));
  }
  return out;
}

std::string added(const std::set<std::string>& before, const std::set<std::string>& after) {
  std::string out;
  for (const std::string& entry : after) {
    if (!before.contains(entry)) out += (out.empty() ? "" : ", ") + entry;
  }
  return out;
}

std::array<void (*)(int), watched_signals.size()> handlers() {
  std::array<void (*)(int), watched_signals.size()> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    struct sigaction now {};
    sigaction(watched_signals[i], nullptr, &now);
    out[i] = now.sa_handler;
  }
  return out;
}

bool denormals_live() {
  volatile double smallest = DBL_MIN;
  smallest = smallest / 4;
  return smallest > 0;
}

}  // namespace

CONFORM_CASE(0, "abi: loading starts no thread and opens no file", .alone = true) {
  const auto tasks = entries("/proc/self/task"), files = entries("/proc/self/fd");
  TN_TRY(t.tables());
  const std::string new_tasks = added(tasks, entries("/proc/self/task")),
                    new_files = added(files, entries("/proc/self/fd"));
  t.check(new_tasks.empty(), "dlopen and the entry call left threads running: ", new_tasks,
          ": start them when a device is opened");
  t.check(new_files.empty(), "dlopen and the entry call left files open: ", new_files,
          ": open them when a device is opened");
  return {};
}

CONFORM_CASE(0, "abi: loading leaves signals, folder and floating point alone", .alone = true) {
  const auto before = handlers();
  const fs::path folder = fs::current_path();
  const int rounding = std::fegetround();
  const bool denormals = denormals_live();
  TN_TRY(t.tables());
  const auto after = handlers();
  for (size_t i = 0; i < before.size(); ++i) {
    t.check(before[i] == after[i], "the handler of signal ", watched_signals[i], " was exchanged");
  }
  t.check(fs::current_path() == folder, "the working directory was changed");
  t.check(std::fegetround() == rounding, "the rounding mode was changed");
  t.check(denormals_live() == denormals,
          "denormal numbers now flush to zero: the library was linked with -ffast-math");
  return {};
}

CONFORM_CASE(0, "abi: nothing is written to standard output", .alone = true) {
  struct stat before {
  }, after{};
  fstat(STDOUT_FILENO, &before);
  TN_TRY(tour(t));
  std::fflush(nullptr);
  t.check(fstat(STDOUT_FILENO, &after) == 0, "standard output was closed");
  t.check(after.st_size <= before.st_size, after.st_size - before.st_size,
          " bytes were written to standard output, which belongs to the program: use host->log");
  return {};
}

}  // namespace tenon::conform
