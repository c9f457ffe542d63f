// SPDX-License-Identifier: Apache-2.0
// search.hpp: which of several ways to compute a problem is taken: the first in a table's order, or the fastest measured.
//
// A search runs every way on scratch memory once in the life of a machine; what it found is kept in a file.
// Invariant: where nothing may be measured, the same problem is always computed the same way, whatever the file says.
#pragma once

#include "builder.hpp"
#include "search_cache.hpp"

#include "../engine/team.hpp"

#include <functional>
#include <mutex>

namespace tenon::cpu {

// One way to compute a problem.
struct Way {
  std::string name;
  // Appends its steps, for operands in the trial's bindings. TN_UNSUPPORTED: not this problem. [may fail]
  std::function<Status(Builder& builder, Steps& steps)> build;
};

struct Problem {
  std::string key;                      // all that its time depends on but the machine; one line
  std::vector<uint64_t> binding_bytes;  // of a trial
  std::vector<Way> ways;                // in the table's order; at least one
};

struct WayChoice {
  size_t way = 0;
  double ns = 0;  // what a run was measured to take; 0: not measured
};

struct SearchOptions {
  // by_budget: quick for a compile that allows time for tuning, else off.
  enum class Effort { by_budget, off, quick, full };
  Effort effort = Effort::by_budget;
  uint64_t workspace_limit = TN_COMPILE_NO_LIMIT;  // of one product
  std::string folder{};                            // of the file; empty: none is kept
  std::string prefer{};                            // a way to be taken wherever there is one of that name
};
// The host's options `search`, `workspace_limit`, `cache` and `prefer`. TN_INVALID names key, value and what it may be.
// [may fail]
Result<SearchOptions> search_options(const author::Host& host);

class WaySearch {
 public:
  WaySearch(SearchOptions options, Crew& crew)
      : options_(std::move(options)), crew_(crew), cache_(options_.folder, crew.host) {}
  WaySearch(const WaySearch&) = delete;
  WaySearch& operator=(const WaySearch&) = delete;

  // Of the ways whose workspace fits `limit` and the option; where none does, the table's first. A budget above 0 ends
  // the search in so many ms, and what was not measured by then is the table's to decide. [any-thread; may block; cannot fail]
  WayChoice choose(const Problem& problem, double budget_ms, uint64_t limit);

 private:
  struct Trial;
  struct Pace;
  using Trials = std::vector<std::unique_ptr<Trial>>;

  Pace pace(double budget_ms) const noexcept;
  std::vector<size_t> fitting(const Problem& problem, uint64_t limit) const;
  std::string key_of(const Problem& problem, const std::vector<size_t>& ways) const;
  std::optional<WayChoice> known(const Problem& problem, const std::string& key);
  static Trials trials(const Problem& problem, const std::vector<size_t>& ways);
  bool race(const Problem& problem, const Trials& trials, const Pace& pace);
  WayChoice measure(const Problem& problem, const std::vector<size_t>& ways, const std::string& key,
                    const Pace& pace);

  SearchOptions options_;
  Crew& crew_;
  SearchCache cache_;
  std::mutex one_at_a_time_;  // trials would slow each other
};

// Appends the steps of the way that choose() names; where that refuses, of the first of the others that does not.
// [any-thread; may block; may fail]
Status build_best(Builder& builder, const Problem& problem, Steps& steps,
                  const std::function<Status(size_t way, Steps& own)>& build);

}  // namespace tenon::cpu
