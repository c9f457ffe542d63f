// SPDX-License-Identifier: Apache-2.0
// The benchmark of collectives: all-reduce of floats, in place, between processes of one host or two, beside Gloo, Open MPI,
// MPICH and a floor on which nobody waits; and how soon ranks are told of a lost one.
//
//   bench_comm                        all rows
//   bench_comm PART …                 one_host, two_hosts, faults
//   bench_comm --player WHO …         one rank, as the conductor starts them
//   bench_comm --mortal …             one that is told of another's end (faults.cpp)
//
// Invariant: standard output carries one JSON object a line and nothing else; the contestants of a row take turns, one run each.
#include "../row.hpp"
#include "contestant.hpp"
#include "parts.hpp"
#include "players.hpp"
#include "turns.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <thread>

namespace bench {
namespace {

struct Size {
  const char* name;
  uint64_t bytes;
};
constexpr Size sizes[] = {{"4B", 4},       {"1K", 1 << 10},   {"64K", 1 << 16},
                          {"1M", 1 << 20}, {"16M", 16 << 20}, {"64M", 64 << 20}};
constexpr uint64_t large = 1 << 16;  // from here on bytes decide, not calls

unsigned processors() { return std::max(1u, std::thread::hardware_concurrency()); }

// Everybody, for one number of ranks.
class Stage {
 public:
  explicit Stage(uint32_t ranks) : ranks_(ranks) {
    floor_ = memfd_create("tenon-bench-floor", MFD_CLOEXEC);
    if (ftruncate(floor_, static_cast<off_t>(4096 + ranks * most_bytes)) != 0) std::perror("bench comm");
    ours_ = add("tenon", own("tenon"));
    private_ = add("tenon private", own("private"));
    limit_ = add("no wait", own("floor"));
#ifdef BENCH_GLOO
    rivals_.push_back(add("gloo", own("gloo"), gloo_ways));
#endif
#ifdef BENCH_OPENMPI
    rivals_.push_back(
        add("Open MPI",
            {Contestant::Command{BENCH_OPENMPI_RUN, "--allow-run-as-root", "--oversubscribe", "--bind-to",
                                 "none", "-n", std::to_string(ranks), BENCH_OPENMPI, "{socket}"}}));
#endif
#ifdef BENCH_MPICH
    rivals_.push_back(add("MPICH", {Contestant::Command{BENCH_MPICH_RUN, "-n", std::to_string(ranks),
                                                        BENCH_MPICH, "{socket}"}}));
#endif
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() { close(floor_); }

  void all() {
    for (const Size& size : sizes) {
      const std::string of = std::string("/") + size.name;
      measure("all_reduce", of, *ours_, {.form = Form::back_to_back, .bytes = size.bytes});
      if (size.bytes >= large)
        measure("private", of, *private_, {.form = Form::back_to_back, .bytes = size.bytes});
      measure("produce_consume", of, *ours_, {.form = Form::produce_consume, .bytes = size.bytes});
    }
    measure("gradients", "", *ours_, one_by_one);
    measure("gradients_flat", "", *ours_, fused);
    measure("gradients_produce_consume", "", *ours_,
            {.form = Form::produce_consume, .load = Load::gradients});
    measure("gradients_flat_produce_consume", "", *ours_,
            {.form = Form::produce_consume, .load = Load::flat});
    separate_against_flat();
    latency();
    measure("barrier", "", *ours_, {.form = Form::barrier});
  }

 private:
  Contestant* add(const char* name, const std::vector<Contestant::Command>& commands, uint32_t ways = 1) {
    return &contestants_.emplace_back(name, ranks_, commands, ways);
  }
  // One for each rank.
  std::vector<Contestant::Command> own(const char* who) const {
    const Seat seat{.size = ranks_,
                    .floor = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(floor_)};
    return std::vector<Contestant::Command>(ranks_, command_of(who, seat));
  }
  static constexpr Work one_by_one{.form = Form::back_to_back, .load = Load::gradients};
  static constexpr Work fused{.form = Form::back_to_back, .load = Load::flat};

  std::string row_name(const std::string& what) const { return what + "/" + std::to_string(ranks_); }

  // One row for each rival, all with the same runs of ours.
  void measure(const std::string& what, const std::string& of, Contestant& ours, const Work& work) {
    // No floor for what is written and read: on it ranks would take each other's lines at any moment of that, which costs more.
    const bool limited = work.form == Form::back_to_back && (work.load != Load::bytes || work.bytes >= large);
    take_turns({.name = row_name(what) + of, .unit = "us"}, ours, rivals_, work, limited ? limit_ : nullptr);
  }

  // What fusing would gain on this host: the first takes turns with the second.
  void separate_against_flat() {
    Row row{.name = row_name("gradients_separate"), .peer = "one flat buffer", .unit = "us"};
    row.median = true;
    for (int run = 0; run < runs; ++run) {
      ours_->aim(one_by_one);
      row.ours.push_back(ours_->run());
      ours_->aim(fused);
      row.theirs.push_back(ours_->run());
    }
    if (ours_->why().empty()) print(row);
  }

  // Four bytes by the fastest run, as an absolute time is judged.
  void latency() {
    Row row{.name = row_name("latency"), .unit = "us"};
    ours_->aim({.form = Form::back_to_back, .bytes = sizeof(float)});
    for (int run = 0; run < runs; ++run) row.ours.push_back(ours_->run());
    if (ours_->why().empty()) print(row);
  }

  uint32_t ranks_;
  int floor_ = -1;
  std::deque<Contestant> contestants_;
  Contestant *ours_ = nullptr, *private_ = nullptr, *limit_ = nullptr;
  std::vector<Contestant*> rivals_;
};

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  if (argc == 10 && std::string(argv[1]) == "--player") return bench::play_here(argv + 2);
  if (argc == 6 && std::string(argv[1]) == "--mortal") return bench::live_until_told(argv + 2);
  const std::vector<std::string> parts(argv + 1, argv + argc);
  const auto asked = [&](const char* part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  bench::note(std::to_string(bench::processors()) + " processors; each rank is bound to one, in turn");
  for (const uint32_t ranks : {2u, 4u}) {
    if (asked("one_host")) bench::Stage(ranks).all();
  }
  if (asked("two_hosts")) bench::two_hosts();
  if (asked("faults")) bench::faults();
  return 0;
}
