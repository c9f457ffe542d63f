// SPDX-License-Identifier: Apache-2.0
// The benchmark of collectives on one host: all-reduce of floats, in place, between processes, beside Gloo, Open MPI, MPICH
// and a floor on which nobody waits.
//
//   bench_comm                        all rows
//   bench_comm --player WHO …         one rank, as the conductor starts them
//
// Invariant: standard output carries one JSON object a line and nothing else; the contestants of a row take turns, one run each.
#include "../row.hpp"
#include "contestant.hpp"
#include "players.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>
#include <thread>

namespace bench {
namespace {

int play_here(char** words) {
  const std::string who = words[0], socket = words[1];
  const Seat seat{.rank = static_cast<uint32_t>(std::stoul(words[2])),
                  .size = static_cast<uint32_t>(std::stoul(words[3])),
                  .meeting = words[4],
                  .floor = words[5]};
  bind_to_processor(seat.rank);
  const auto player = who == "gloo"    ? gloo_player(seat)
                      : who == "floor" ? floor_player(seat)
                                       : tenon_player(seat, who == "tenon");
  if (player == nullptr) return 1;
  const int conductor = enter(socket, seat.rank);
  if (conductor < 0) return 1;
  play(conductor, *player, seat.rank, seat.size);
  return 0;
}

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
    rivals_.push_back(add("gloo", own("gloo"), false, gloo_ways));
#endif
#ifdef BENCH_OPENMPI
    rivals_.push_back(add("Open MPI",
                          {BENCH_OPENMPI_RUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                           "-n", std::to_string(ranks), BENCH_OPENMPI, "{socket}"},
                          true));
#endif
#ifdef BENCH_MPICH
    rivals_.push_back(
        add("MPICH", {BENCH_MPICH_RUN, "-n", std::to_string(ranks), BENCH_MPICH, "{socket}"}, true));
#endif
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() { close(floor_); }

  void all() {
    for (const Size& size : sizes) {
      measure("all_reduce", *ours_, Form::back_to_back, size);
      if (size.bytes >= large) measure("private", *private_, Form::back_to_back, size);
      if (size.bytes >= large && ranks_ <= processors())
        measure("produce_consume", *ours_, Form::produce_consume, size);
    }
    measure("gradients", *ours_, Form::gradients, {"", 0});
    measure("gradients_flat", *ours_, Form::flat, {"", 0});
    separate_against_flat();
    latency();
    measure("barrier", *ours_, Form::barrier, {"", 0});
  }

 private:
  Contestant* add(const char* name, std::vector<std::string> command, bool launcher = false,
                  uint32_t ways = 1) {
    return &contestants_.emplace_back(name, ranks_, std::move(command), launcher, ways);
  }
  std::vector<std::string> own(const char* who) const {
    return {std::filesystem::read_symlink("/proc/self/exe"),
            "--player",
            who,
            "{socket}",
            "{rank}",
            std::to_string(ranks_),
            "{meeting}",
            "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(floor_)};
  }
  std::string row_name(const std::string& form, const Size& size) const {
    return form + "/" + std::to_string(ranks_) + (*size.name == '\0' ? "" : "/") + size.name;
  }

  // One row for each rival, all with the same runs of ours.
  void measure(const std::string& form, Contestant& ours, Form what, const Size& size) {
    const std::string name = row_name(form, size);
    if (!ours.prepare(what, size.bytes)) return left_out(name, ours.name() + ": " + ours.why());
    std::vector<Contestant*> asked;
    for (Contestant* rival : rivals_) {
      if (rival->why().empty() && rival->prepare(what, size.bytes)) asked.push_back(rival);
    }
    const bool limited = size.bytes >= large && what == Form::back_to_back;
    if (limited) limit_->aim(what, size.bytes);
    std::vector<double> own, floor;
    std::vector<std::vector<double>> theirs(asked.size());
    for (int run = 0; run < runs; ++run) {
      own.push_back(ours.run());
      if (limited) floor.push_back(limit_->run());
      for (size_t i = 0; i < asked.size(); ++i) theirs[i].push_back(asked[i]->run());
    }
    Row row{.name = name, .unit = "us", .ours = own, .median = true};
    if (limited) row.limit = middle(floor);
    for (Contestant* rival : rivals_) {
      const auto at = std::find(asked.begin(), asked.end(), rival);
      row.peer = rival->name();
      row.theirs =
          at == asked.end() ? std::vector<double>{} : theirs[static_cast<size_t>(at - asked.begin())];
      row.why_no_peer = rival->why();
      if (at != asked.end() && !rival->why().empty()) row.theirs.clear();
      print(row);
    }
    if (rivals_.empty()) print(row);
  }

  // What fusing would gain on this host: the first takes turns with the second.
  void separate_against_flat() {
    Row row{.name = row_name("gradients_separate", {"", 0}), .peer = "one flat buffer", .unit = "us"};
    row.median = true;
    for (int run = 0; run < runs; ++run) {
      ours_->aim(Form::gradients, 0);
      row.ours.push_back(ours_->run());
      ours_->aim(Form::flat, 0);
      row.theirs.push_back(ours_->run());
    }
    if (ours_->why().empty()) print(row);
  }

  // Four bytes by the fastest run, as an absolute time is judged.
  void latency() {
    Row row{.name = row_name("latency", {"", 0}), .unit = "us"};
    ours_->aim(Form::back_to_back, sizeof(float));
    for (int run = 0; run < runs; ++run) row.ours.push_back(ours_->run());
    if (ours_->why().empty()) print(row);
  }

  static double middle(std::vector<double> of) {
    std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
    return of[of.size() / 2];
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
  if (argc == 8 && std::string(argv[1]) == "--player") return bench::play_here(argv + 2);
  bench::note(std::to_string(bench::processors()) + " processors; each rank is bound to one, in turn");
  for (const uint32_t ranks : {2u, 4u}) bench::Stage(ranks).all();
  return 0;
}
