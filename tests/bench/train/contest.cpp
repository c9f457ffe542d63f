// SPDX-License-Identifier: Apache-2.0
// contest.cpp: warming up, rounds, and who is left out.
#include "contest.hpp"

#include "../row.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

namespace bench {
namespace {

// Captures, plans by measured arrivals and compilers at run time are done after as many.
constexpr int warm_ups = 5, fewest_rounds = 5, most_rounds = 15;
constexpr double patience_ms = 45'000;  // of the rounds of one contest
// Slower steps are no contest: a processor without units for bf16 needs minutes in some libraries.
constexpr double slowest_ms = 20'000;
// Threads that spin after their step have gone to sleep.
constexpr auto pause = std::chrono::milliseconds(20);

double step_of(Rider& rider) {
  std::this_thread::sleep_for(pause);
  return rider.racer->step();
}

void warm_up(Rider& rider) {
  for (int i = 0; i < warm_ups; ++i) {
    const double ms = step_of(rider);
    if (i == 0 || ms < slowest_ms) continue;
    return rider.racer->give_up("a step takes " + std::to_string(static_cast<int>(ms / 1000)) + " s");
  }
}

void race(std::vector<Rider>& riders) {
  for (Rider& rider : riders) warm_up(rider);
  double spent = 0;
  for (int round = 0; round < most_rounds && (round < fewest_rounds || spent < patience_ms); ++round) {
    for (Rider& rider : riders) {
      const double ms = step_of(rider);
      if (ms < 0) continue;
      rider.times.push_back(ms);
      spent += ms;
    }
  }
  for (Rider& rider : riders) rider.racer->check_learning();
}

void check_sizes(std::vector<Rider>& riders) {
  for (Rider& rider : riders) {
    if (rider.racer->why().empty() && rider.racer->parameters() != riders.front().racer->parameters())
      rider.racer->give_up("its model has " + std::to_string(rider.racer->parameters()) +
                           " parameters, ours " + std::to_string(riders.front().racer->parameters()));
  }
}

// A row for each but the first, which is the one that is compared.
void tell(const std::string& name, const std::vector<Rider>& riders) {
  const Rider& ours = riders.front();
  if (!ours.racer->why().empty()) return left_out(name, ours.racer->why());
  for (size_t i = 1; i < riders.size(); ++i) {
    Row row{.name = name, .peer = riders[i].name, .unit = "ms", .ours = ours.times, .median = true};
    row.why_no_peer = riders[i].racer->why();
    if (row.why_no_peer.empty()) row.theirs = riders[i].times;
    print(row);
  }
}

}  // namespace

void contest(const std::string& name, std::vector<Rider> riders) {
  std::fprintf(stderr, "bench: %s, %s\n", name.c_str(), riders.back().name.c_str());
  check_sizes(riders);
  race(riders);
  tell(name, riders);
}

}  // namespace bench
