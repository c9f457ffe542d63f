// SPDX-License-Identifier: Apache-2.0
// journal.hpp: the results of a run as they come in, one line of JSON each, so that --resume can go on after a stop.
//
// Invariant: a journal belongs to one library (by digest), one build of the kit, one seed, one device, one size of run and
// one set of plugin options; results of another never count.
#pragma once

#include "conformance/runner.hpp"

#include <string>
#include <vector>

namespace tenon::conform {

class Journal {
 public:
  // The journal of this run, in the user's cache folder; without one it keeps nothing. [one thread; may block]
  Journal(const Options& options, const std::string& digest);
  // What an earlier run left. [one thread; may block; cannot fail]
  std::vector<CaseResult> read() const;
  // Forgets what an earlier run left. [one thread; may block; cannot fail]
  void clear() const;
  void append(const CaseResult& result) const;
  const std::string& file() const noexcept { return file_; }

 private:
  std::string file_;
};

}  // namespace tenon::conform
