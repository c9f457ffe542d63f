// SPDX-License-Identifier: Apache-2.0
// search.cpp: the trials.
//
// Invariant: a trial touches no memory but its own.
#include "search.hpp"

#include "../driver.hpp"
#include "gemm.hpp"
#include "isa.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <system_error>
#include <thread>

namespace tenon::cpu {

using author::text;

namespace {

constexpr double ms = 1e6;        // in ns
constexpr double better = 0.95;   // a way further down the table has to gain as much
constexpr size_t least_runs = 3;  // of each way, of which the first pays for cold memory

// Pages for trials' operands or workspace: numbers around 1 in bf16 and in f32 alike.
class Pages {
 public:
  explicit Pages(uint64_t bytes)
      : bytes_(std::max<uint64_t>(bytes, 1)), at_(driver::map_pages(bytes_, 4096, -1)) {
    if (at_ == nullptr) return;
    auto* const halves = static_cast<uint16_t*>(at_);
    for (uint64_t i = 0; i < bytes_ / 2; ++i) halves[i] = static_cast<uint16_t>(0x3f80 + (i * 37 & 31));
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (at_ != nullptr) driver::unmap_pages(at_, bytes_);
  }
  std::byte* at() const noexcept { return static_cast<std::byte*>(at_); }

 private:
  uint64_t bytes_;
  void* at_;
};

// Operands for one run after another. They lie in memory so often that a run finds its own in no cache: between two runs of
// one kernel a network goes through more than caches hold, and what is quickest on warm operands need not be so there.
class Operands {
 public:
  // No more often than `most_runs`, and never of more than `most_bytes`: where once would be, there are none.
  Operands(const std::vector<uint64_t>& sizes, uint64_t most_runs, uint64_t most_bytes) {
    for (const uint64_t size : sizes) {
      offsets_.push_back(bytes_);
      bytes_ += (size + line - 1) / line * line;
    }
    if (bytes_ > most_bytes) return;
    const uint64_t wanted = std::min({2 * driver::cache_bytes(), enough, most_bytes});
    copies_ = std::clamp<uint64_t>(wanted / std::max<uint64_t>(bytes_, 1), 1, most_runs);
    pages_ = std::make_unique<Pages>(bytes_ * copies_);
  }
  bool complete() const noexcept { return pages_ != nullptr && pages_->at() != nullptr; }
  // Bindings of the next run, until the one after it.
  std::byte* const* next() {
    std::byte* const first = pages_->at() + bytes_ * (runs_++ % copies_);
    bindings_.clear();
    for (const uint64_t offset : offsets_) bindings_.push_back(first + offset);
    return bindings_.data();
  }

 private:
  static constexpr uint64_t line = 64, enough = 256 << 20;  // more would take longer to fill than to run

  uint64_t bytes_ = 0, copies_ = 1, runs_ = 0;
  std::vector<uint64_t> offsets_;
  std::unique_ptr<Pages> pages_;
  std::vector<std::byte*> bindings_;
};

// Whether there was a thread to be had; what body() throws is thrown here. The team goes with the thread: left to the caller's it
// would stay, OpenMP would count more threads than processors, and let all teams of the process fall asleep where they would have spun.
template <class Body>
bool on_own_thread(unsigned threads, const Body& body) {
  std::exception_ptr thrown;
  std::thread own;
  try {
    own = std::thread([&] {
      try {
        const TeamSize size(threads);
        body();
      } catch (...) {
        thrown = std::current_exception();
      }
      dismiss_team();
    });
  } catch (const std::system_error&) {
    return false;
  }
  own.join();
  if (thrown) std::rethrow_exception(thrown);
  return true;
}

}  // namespace

Result<SearchOptions> search_options(const author::Host& host) {
  using Effort = SearchOptions::Effort;
  SearchOptions out;
  if (const char* const word = host.option("search")) {
    const std::string_view effort = word;
    if (effort != "off" && effort != "quick" && effort != "full")
      return Status(TN_INVALID,
                    text("option 'search' of plugin 'cpu' is '", effort, "': it must be off, quick or full"));
    out.effort = effort == "off" ? Effort::off : effort == "quick" ? Effort::quick : Effort::full;
  }
  if (host.option("workspace_limit") != nullptr)
    out.workspace_limit = static_cast<uint64_t>(TN_TRY(host.integer("workspace_limit", 0, 0, INT64_MAX)));
  if (const char* const name = host.option("prefer")) out.prefer = name;
  const char* const folder = host.option("cache");
  if (folder == nullptr)
    out.folder = driver::cache_folder();
  else if (std::string_view(folder) != "off")
    out.folder = folder;
  return out;
}

// A way, built on operands of its own.
struct WaySearch::Trial {
  Trial() : builder(nothing) {}
  double run(std::byte* const* bindings, const Team& team, std::byte* room) {
    const Run one{.bindings = bindings, .workspace = room, .team = team};
    const uint64_t start = driver::now_ns();
    for (const auto& step : steps) {
      if (!step->run(one).ok()) return std::numeric_limits<double>::infinity();
    }
    return static_cast<double>(driver::now_ns() - start);
  }

  static constexpr tn_fragment nothing{};
  size_t way = 0;
  Builder builder;
  Steps steps;
  std::vector<double> runs{};  // ns of each, in the order of the rounds

  double best() const { return std::ranges::min(runs); }
  bool fails() const { return !std::isfinite(std::ranges::max(runs)); }
  // The median of how often as long as `other`'s this one's runs took, round by round: what slows down some rounds slows both ways.
  // A way that fails takes for ever.
  double beside(const Trial& other) const {
    if (fails()) return std::numeric_limits<double>::infinity();
    if (other.fails()) return 0;
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(runs.size(), other.runs.size()); ++i)
      ratios.push_back(runs[i] / other.runs[i]);
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    return *middle;
  }
};

// How long a search goes on: `least_runs` of each way, and up to `rounds` while they have taken less than `enough`. After `end`
// no run begins.
struct WaySearch::Pace {
  size_t rounds;
  double enough, end;
};

WaySearch::Pace WaySearch::pace(double budget_ms) const noexcept {
  const bool full = options_.effort == SearchOptions::Effort::full;
  return {.rounds = full ? 100u : 40u,
          .enough = full ? 1000 * ms : std::clamp(budget_ms / 16, 100.0, 1000.0) * ms,
          .end = budget_ms > 0 ? budget_ms * ms : std::numeric_limits<double>::infinity()};
}

std::vector<size_t> WaySearch::fitting(const Problem& problem, uint64_t limit) const {
  std::vector<size_t> out;
  for (size_t way = 0; way < problem.ways.size(); ++way) {
    if (limit != TN_COMPILE_NO_LIMIT) {
      Trial trial;
      if (!problem.ways[way].build(trial.builder, trial.steps).ok()) continue;
      if (trial.builder.workspace_bytes() > limit) continue;
    }
    out.push_back(way);
  }
  if (out.empty()) out.push_back(0);
  return out;
}

std::string WaySearch::key_of(const Problem& problem, const std::vector<size_t>& ways) const {
  static const std::string machine =
      text(driver::cpu_model(), " | ", onednn_version(), " | tenon ", TENON_PLUGIN_VERSION);
  std::string out =
      text(machine, " | ", isa_name(isa()), " | ", crew_.threads, " threads | ", problem.key, " |");
  for (const size_t way : ways) out += text(" ", problem.ways[way].name);
  return out;
}

std::optional<WayChoice> WaySearch::known(const Problem& problem, const std::string& key) {
  const std::optional<Finding> finding = cache_.find(key);
  if (!finding) return {};
  for (size_t way = 0; way < problem.ways.size(); ++way) {
    if (problem.ways[way].name == finding->way) return WayChoice{.way = way, .ns = finding->ns};
  }
  return {};
}

WayChoice WaySearch::choose(const Problem& problem, double budget_ms, uint64_t limit) {
  using Effort = SearchOptions::Effort;
  const std::vector<size_t> ways = fitting(problem, std::min(limit, options_.workspace_limit));
  for (const size_t way : ways) {
    if (problem.ways[way].name == options_.prefer) return {.way = way};
  }
  const bool measures = options_.effort == Effort::by_budget ? budget_ms > 0 : options_.effort != Effort::off;
  if (ways.size() == 1 || !measures) return {.way = ways[0]};
  const std::string key = key_of(problem, ways);
  const std::lock_guard lock(one_at_a_time_);
  if (const auto found = known(problem, key)) return *found;
  return measure(problem, ways, key, pace(budget_ms));
}

WaySearch::Trials WaySearch::trials(const Problem& problem, const std::vector<size_t>& ways) {
  Trials out;
  for (const size_t way : ways) {
    auto trial = std::make_unique<Trial>();
    trial->way = way;
    if (problem.ways[way].build(trial->builder, trial->steps).ok()) out.push_back(std::move(trial));
  }
  return out;
}

// Takes turns, so that a machine that slows down slows all. Whether there was memory and a thread for it.
bool WaySearch::race(const Problem& problem, const Trials& trials, const Pace& pace) {
  const uint64_t start = driver::now_ns();
  const auto elapsed = [&] { return static_cast<double>(driver::now_ns() - start); };
  uint64_t room_bytes = 0;
  for (const auto& trial : trials) room_bytes = std::max(room_bytes, trial->builder.workspace_bytes());
  const uint64_t allowed = driver::memory_figures().available / 2;
  if (room_bytes > allowed) return false;
  const Pages room(room_bytes);
  Operands operands(problem.binding_bytes, trials.size() * pace.rounds, allowed - room_bytes);
  if (room.at() == nullptr || !operands.complete()) return false;
  return on_own_thread(crew_.threads, [&] {
    const Team team(crew_);
    const double begun = elapsed();  // to map and fill memory takes longer than many a race
    const auto may_go_on = [&](size_t round) {
      return round < pace.rounds && (round < least_runs || elapsed() - begun < pace.enough);
    };
    for (size_t round = 0; may_go_on(round); ++round) {
      for (const auto& trial : trials) {
        if (elapsed() >= pace.end) return;
        trial->runs.push_back(trial->run(operands.next(), team, room.at()));
      }
    }
  });
}

WayChoice WaySearch::measure(const Problem& problem, const std::vector<size_t>& ways, const std::string& key,
                             const Pace& pace) {
  const WayChoice by_table{.way = ways[0]};
  const Trials all = trials(problem, ways);
  if (all.empty() || !race(problem, all, pace)) return by_table;
  std::string words;
  const Trial* best = all[0].get();
  for (const auto& trial : all) {
    if (trial->runs.size() < least_runs) {
      crew_.host.log(
          TN_LOG_INFO,
          text("search: the time allowed ended before each way had its runs, the table decides: ", key));
      return by_table;
    }
    words += text(words.empty() ? "" : ", ", problem.ways[trial->way].name, " ", trial->best() / ms, " ms");
    if (trial->beside(*best) < better) best = trial.get();
  }
  if (best->fails()) return by_table;
  const double ns = best->best();
  const Finding finding{problem.ways[best->way].name, ns};
  crew_.host.log(TN_LOG_INFO, text("search: ", finding.way, " of ", words, ": ", key));
  cache_.keep(key, finding);
  return {.way = best->way, .ns = ns};
}

Status build_best(Builder& builder, const Problem& problem, Steps& steps,
                  const std::function<Status(size_t way, Steps& own)>& build) {
  const Tuning& tuning = builder.tuning();
  uint64_t limit = tuning.workspace_limit;
  if (limit != TN_COMPILE_NO_LIMIT) limit -= std::min(limit, builder.workspace_bytes());
  const WayChoice choice =
      tuning.search != nullptr ? tuning.search->choose(problem, tuning.budget_ms, limit) : WayChoice{};
  Steps own;
  Status built = build(choice.way, own);
  if (built.ok()) builder.measured(choice.ns);
  for (size_t way = 0; way < problem.ways.size() && built.code() == TN_UNSUPPORTED; ++way) {
    if (way == choice.way) continue;
    own.clear();
    built = build(way, own);
  }
  std::move(own.begin(), own.end(), std::back_inserter(steps));
  return built;
}

}  // namespace tenon::cpu
