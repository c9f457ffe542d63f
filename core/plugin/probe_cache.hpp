// SPDX-License-Identifier: Apache-2.0
// probe_cache.hpp: verdicts of earlier probes.
//
// Invariant: an entry is found only for the very bytes, ABI range and library version it was made for, and only when it
// is this user's own file. It counts only while every library that the plugin brought with it (its vendor's runtime, a
// driver's) is the file it was.
#pragma once

#include "plugin/probe.hpp"

#include <optional>

namespace tenon::plugin {

// A verdict about the file itself; what may change with the machine (a missing library, a missing driver) is not kept.
struct Remembered {
  Status status{};
  std::chrono::milliseconds timeout{0};  // > 0: it took longer than this
  // Of those that came with it, as far as they are known: stamp, a space, path.
  std::vector<std::string> libraries{};
  bool current = true;  // recalled: none of them has changed since
};

// Where the entry of `subject` stands. [any-thread; does not block; cannot fail]
std::string entry_path(const std::string& cache, const Subject& subject);
// [any-thread; may block; cannot fail]
std::optional<Remembered> recall(const std::string& cache, const Subject& subject);
// [any-thread; may block; may fail]
Status remember(const std::string& cache, const Subject& subject, const Remembered& verdict);

}  // namespace tenon::plugin
