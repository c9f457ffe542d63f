// SPDX-License-Identifier: Apache-2.0
// progress.hpp: the one line of a terminal that says how far a run is.
//
// Invariant: it is never longer than the terminal is wide, so it can always be wiped; where there is no terminal it
// writes nothing at all.
#pragma once

#include <cstddef>
#include <string>

namespace tenon::tool {

class Progress {
 public:
  // Of standard output. [one thread; does not block; cannot fail]
  Progress();
  bool shown() const noexcept { return terminal_; }
  void total(size_t count) { total_ = count; }
  void count(bool failed) { ++done_, failed_ += failed; }
  // "[12/63] 1 failed · copy: zero bytes …"
  void show(const std::string& name) const;
  void clear() const;

 private:
  bool terminal_;
  size_t total_ = 0, done_ = 0, failed_ = 0;
};

}  // namespace tenon::tool
