// SPDX-License-Identifier: Apache-2.0
// flows.cpp: a collective on one lane, and the same on each of several at once, in turn.
#include "overlap/flows.hpp"

#include "base/clock.hpp"
#include "overlap/measure.hpp"

#include <algorithm>

namespace tenon::overlap {
namespace {

constexpr int repeats = 5;         // behind one that is not counted
constexpr double worth_it = 1.05;  // times as much as without the last lane

// Until the last of the first `count` trials is over, all begun together.
Result<double> time_together(std::vector<Trial>& trials, size_t count, const Collective& collective,
                             uint64_t bytes) {
  Lane& first = trials[0].lane();
  TN_TRY(first.comm.barrier(first.stream));
  TN_TRY(first.stream.sync());
  const uint64_t start = base::now_ns();
  for (size_t i = 0; i < count; ++i) TN_TRY(trials[i].run(collective, bytes));
  for (size_t i = 0; i < count; ++i) TN_TRY(trials[i].lane().stream.sync());
  return static_cast<double>(base::now_ns() - start);
}

// How many times as much all lanes move together as the first one alone.
Result<double> measure_carried(Device& device, std::vector<Lane>& lanes, const Collective& collective,
                               uint64_t bytes) {
  std::vector<Trial> trials;
  for (Lane& lane : lanes) trials.push_back(TN_TRY(Trial::open(device, lane, bytes)));
  std::vector<double> alone, together;
  for (int i = 0; i <= repeats; ++i) {
    const double one = TN_TRY(time_together(trials, 1, collective, bytes));
    const double all = TN_TRY(time_together(trials, trials.size(), collective, bytes));
    if (i == 0) continue;
    alone.push_back(one);
    together.push_back(all);
  }
  std::vector<double> usual{middle_of(std::move(alone)), middle_of(std::move(together))};
  TN_TRY(greatest(device, lanes[0], usual));
  return static_cast<double>(lanes.size()) * usual[0] / std::max(1.0, usual[1]);
}

}  // namespace

Result<double> add_lanes(std::vector<Lane>& lanes, uint32_t most, const OpenLane& open,
                         const Carried& carried) {
  double flows = 1;
  while (lanes.size() < most) {
    lanes.push_back(TN_TRY(open(static_cast<uint32_t>(lanes.size()))));
    const double found = TN_TRY(carried(lanes));
    if (found < worth_it * flows) {
      lanes.pop_back();
      break;
    }
    flows = std::min(found, static_cast<double>(lanes.size()));
  }
  return flows;
}

Result<double> measure_flows(Device& device, std::vector<Lane>& lanes, uint32_t most, uint64_t bytes,
                             const Collective& collective, const CostTable& cost, const OpenLane& open) {
  const uint64_t size = telling_size(cost, std::min(bytes, Trial::largest));
  if (size == 0) return 1.0;
  return add_lanes(lanes, most, open,
                   [&](std::vector<Lane>& all) { return measure_carried(device, all, collective, size); });
}

}  // namespace tenon::overlap
