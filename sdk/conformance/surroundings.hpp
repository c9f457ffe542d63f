// SPDX-License-Identifier: Apache-2.0
// surroundings.hpp: what of a process belongs to its program, and not to a plugin that it loads: the handlers of signals, the
// folder, the umask, the locale, the standard streams, and how its threads compute and which signals they take.
//
// Invariant: looking changes nothing. What is the calling thread's own is looked at on the case's thread.
#pragma once

#include "conformance/context.hpp"

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace tenon::conform {

struct Surroundings {
  std::vector<void (*)(int)> handlers{};  // by signal; null where a signal cannot be asked about
  sigset_t blocked{};                     // on the calling thread
  std::string folder{}, locale{};
  mode_t mask = 0;  // umask
  int rounding = 0, traps = 0;
  bool denormals = true;             // numbers below the normal ones are not flushed to zero
  off_t spoken = 0, complained = 0;  // bytes on standard output, on standard error

  // [case's thread; may block; may throw]
  static Surroundings now();
};

// Makes a locale of the environment show, should the plugin take it for the process. Before the library is opened.
// [case's thread; cannot fail]
void tempt_with_locale();
// Fails the case where something was written to standard output, or it was closed. Words on standard error are a warning: they may
// be those of a library that came with the plugin. [case's thread; may throw]
void said_nothing(Context& t, const Surroundings& before, const std::string& what);
// The same, and fails the case for each other thing that is no longer as it was; `what` did it ("device.open"). `before` becomes
// what is now, so that a change is told once. [case's thread; may throw]
void unchanged(Context& t, Surroundings& before, const std::string& what);

}  // namespace tenon::conform
