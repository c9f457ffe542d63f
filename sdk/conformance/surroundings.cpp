// SPDX-License-Identifier: Apache-2.0
// surroundings.cpp: one look at the process, and two of them compared.
#include "conformance/surroundings.hpp"

#include "conformance/process.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cfenv>
#include <cfloat>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace tenon::conform {

namespace {

// From here on signals are a runtime's own affair: a program that uses them has chosen which.
constexpr int first_realtime = 32;

bool denormals_live() {
  volatile double smallest = DBL_MIN;
  smallest = smallest / 4;
  return smallest > 0;
}

off_t written_to(int descriptor) {
  struct stat now {};
  return fstat(descriptor, &now) == 0 ? now.st_size : -1;
}

// What standard error has beyond `from`, its first line.
std::string first_line_after(off_t from) {
  char text[200];
  const ssize_t got = pread(STDERR_FILENO, text, sizeof text, from);
  const std::string all(text, got > 0 ? static_cast<size_t>(got) : 0);
  return all.substr(0, all.find('\n'));
}

void same_signals(Context& t, const Surroundings& before, const Surroundings& after,
                  const std::string& what) {
  for (size_t i = 1; i < before.handlers.size(); ++i) {
    const int number = static_cast<int>(i);
    const bool mine = number < first_realtime;
    t.check(before.handlers[i] == after.handlers[i] || !mine, what, " exchanged the handler of ",
            signal_name(number), ": signals are the program's; watch for trouble in threads of your own");
    if (before.handlers[i] != after.handlers[i] && !mine)
      t.warn(words(what, " took signal ", number, ", which the program may have chosen for itself"));
    t.check(sigismember(&before.blocked, number) == sigismember(&after.blocked, number), what,
            " changed whether the caller's thread takes ", signal_name(number),
            ": put the mask back before the call returns");
  }
}

void same_streams(Context& t, const Surroundings& before, const Surroundings& after,
                  const std::string& what) {
  t.check(after.spoken >= 0, what, " closed standard output");
  t.check(after.spoken <= before.spoken, what, " wrote ", after.spoken - before.spoken,
          " bytes to standard output, which belongs to the program: use host->log");
  if (after.complained > before.complained)
    t.warn(
        words(what, " wrote to standard error: '", first_line_after(before.complained), "': use host->log"));
}

}  // namespace

Surroundings Surroundings::now() {
  std::fflush(nullptr);
  Surroundings out;
  for (int number = 0; number <= SIGRTMAX; ++number) {
    struct sigaction found {};
    out.handlers.push_back(number > 0 && sigaction(number, nullptr, &found) == 0 ? found.sa_handler
                                                                                 : nullptr);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &out.blocked);
  out.folder = std::filesystem::current_path();
  out.mask = umask(0);
  umask(out.mask);
  out.locale = std::setlocale(LC_ALL, nullptr);
  out.rounding = std::fegetround();
  out.traps = fegetexcept();
  out.denormals = denormals_live();
  out.spoken = written_to(STDOUT_FILENO);
  out.complained = written_to(STDERR_FILENO);
  return out;
}

void tempt_with_locale() { setenv("LC_ALL", "C.UTF-8", 1); }

void said_nothing(Context& t, const Surroundings& before, const std::string& what) {
  same_streams(t, before, Surroundings::now(), what);
}

void unchanged(Context& t, Surroundings& before, const std::string& what) {
  Surroundings after = Surroundings::now();
  same_signals(t, before, after, what);
  same_streams(t, before, after, what);
  t.check(before.folder == after.folder, what, " changed the working directory from ", before.folder, " to ",
          after.folder, ": name files by their whole paths");
  t.check(before.mask == after.mask, what, " changed the umask: give each file its mode when it is made");
  t.check(before.locale == after.locale, what, " changed the locale from ", before.locale, " to ",
          after.locale, ": use newlocale and uselocale, or read and write numbers without one");
  t.check(before.rounding == after.rounding, what,
          " left another rounding mode on the caller's thread: put it back before the call returns");
  t.check(before.traps == after.traps, what,
          " changed which floating-point exceptions trap on the caller's thread: put them back before the "
          "call returns");
  t.check(before.denormals == after.denormals, what,
          " made the caller's thread flush denormal numbers to zero: build without -ffast-math, and set the "
          "mode in "
          "threads of your own");
  before = std::move(after);
}

}  // namespace tenon::conform
