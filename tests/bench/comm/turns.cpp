// SPDX-License-Identifier: Apache-2.0
// turns.cpp: preparing those who can, and one run of each after the other.
#include "turns.hpp"

#include <algorithm>

namespace bench {
namespace {

double middle(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

}  // namespace

void take_turns(Row row, Contestant& ours, std::span<Contestant* const> rivals, const Work& work,
                Contestant* floor, double per_us) {
  if (!ours.prepare(work)) return left_out(row.name, ours.name() + ": " + ours.why());
  std::vector<Contestant*> asked;
  for (Contestant* rival : rivals) {
    if (rival->why().empty() && rival->prepare(work)) asked.push_back(rival);
  }
  if (floor != nullptr) floor->aim(work);
  std::vector<double> least;
  std::vector<std::vector<double>> theirs(asked.size());
  for (int run = 0; run < runs; ++run) {
    row.ours.push_back(ours.run() * per_us);
    if (floor != nullptr) least.push_back(floor->run() * per_us);
    for (size_t i = 0; i < asked.size(); ++i) theirs[i].push_back(asked[i]->run() * per_us);
  }
  if (!ours.why().empty()) return left_out(row.name, ours.name() + ": " + ours.why());
  if (floor != nullptr) row.limit = middle(least);
  row.median = true;
  for (Contestant* rival : rivals) {
    const auto at = std::find(asked.begin(), asked.end(), rival);
    row.peer = rival->name();
    row.why_no_peer = rival->why();
    row.theirs.clear();
    if (at != asked.end() && rival->why().empty())
      row.theirs = theirs[static_cast<size_t>(at - asked.begin())];
    print(row);
  }
  if (rivals.empty()) print(row);
}

}  // namespace bench
