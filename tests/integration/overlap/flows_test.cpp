// SPDX-License-Identifier: Apache-2.0
// flows_test.cpp: how many streams a link carries, over links that are clocks: nothing but time passes on them.
#include "overlap/flows.hpp"
#include "model.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <thread>

using namespace overlap_test;

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t bytes_sent = 1 << 16;
constexpr std::chrono::milliseconds taken(5);

void pass_time() {
  for (const auto end = Clock::now() + taken; Clock::now() < end;) std::this_thread::yield();
}

struct Found {
  double flows = 0;
  size_t lanes = 0;
};

// Of one rank, over a link on which `send` is what a collective does.
Result<Found> found_on(Rank& r, uint32_t most, double cost_ns, const std::function<void()>& send) {
  const auto open = [&](uint32_t number) { return overlap::Lane::open(r.device, r.comm, number); };
  std::vector<overlap::Lane> lanes;
  lanes.push_back(TN_TRY(open(0)));
  const overlap::Collective collective = [&](overlap::Lane& lane, const tn_span&, const tn_span&) {
    return lane.stream.host_call(send);
  };
  Found out;
  out.flows = TN_TRY(overlap::measure_flows(r.device, lanes, most, bytes_sent, collective,
                                            CostTable::linear(0, cost_ns / bytes_sent), open));
  out.lanes = lanes.size();
  return out;
}

constexpr double cost_ns = 5e6;

}  // namespace

TEST_CASE("flows: a link with a share for each connection gets a lane for each share, up to the most") {
  together(1, [](Rank& r) -> Status {
    const Found found = TN_TRY(found_on(r, 3, cost_ns, pass_time));
    TN_TRY(expect(found.lanes == 3, "lanes: " + std::to_string(found.lanes)));
    return expect(found.flows > 2 && found.flows <= 3, "flows: " + std::to_string(found.flows));
  });
}

TEST_CASE("flows: a link that one connection fills carries one") {
  std::mutex link;
  together(1, [&](Rank& r) -> Status {
    const Found found = TN_TRY(found_on(r, 3, cost_ns, [&] {
      const std::lock_guard lock(link);
      pass_time();
    }));
    return expect(found.flows >= 1 && found.flows < 1.5, "flows: " + std::to_string(found.flows));
  });
}

TEST_CASE("flows: what moves too quickly to be told, or on one stream at most, opens no lane") {
  together(1, [](Rank& r) -> Status {
    for (const auto& [most, cost] : {std::pair{3u, 1e4}, {1u, cost_ns}}) {
      const Found found = TN_TRY(found_on(r, most, cost, pass_time));
      TN_TRY(expect(found.flows == 1 && found.lanes == 1, "flows: " + std::to_string(found.flows)));
    }
    return {};
  });
}
