// SPDX-License-Identifier: Apache-2.0
// flows_test.cpp: how many lanes stay open, by what they are said to carry; and that the measuring itself goes through on ranks.
//
// Invariant: nothing here depends on how long anything takes.
#include "overlap/flows.hpp"
#include "model.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;

namespace {

struct Found {
  double flows = 0;
  size_t lanes = 0;
};

overlap::OpenLane opener(Rank& r) {
  return [&r](uint32_t number) { return overlap::Lane::open(r.device, r.comm, number); };
}

// Over a link on which n lanes together carry what carried[n - 2] says.
Result<Found> found_by(Rank& r, uint32_t most, const std::vector<double>& carried) {
  std::vector<overlap::Lane> lanes;
  lanes.push_back(TN_TRY(opener(r)(0)));
  const double flows = TN_TRY(overlap::add_lanes(
      lanes, most, opener(r),
      [&](std::vector<overlap::Lane>& all) -> Result<double> { return carried.at(all.size() - 2); }));
  return Found{flows, lanes.size()};
}

struct Case {
  const char* what;
  uint32_t most;
  std::vector<double> carried;
  Found expected;
};

}  // namespace

TEST_CASE("flows: lanes are added while one more carries more, up to the most") {
  const Case cases[] = {
      {"a share for each", 3, {1.9, 2.8}, {2.8, 3}},
      {"a share for two of them", 4, {1.9, 1.95}, {1.9, 2}},
      {"one fills the link", 4, {1.04}, {1, 1}},
      {"several are slower than one", 4, {0.8}, {1, 1}},
      {"more than there are lanes is noise", 2, {2.3}, {2, 2}},
      {"one at most", 1, {}, {1, 1}},
  };
  together(1, [&](Rank& r) -> Status {
    for (const Case& c : cases) {
      const Found found = TN_TRY(found_by(r, c.most, c.carried));
      TN_TRY(expect(found.flows == c.expected.flows && found.lanes == c.expected.lanes,
                    std::string(c.what) + ": flows " + std::to_string(found.flows) + ", lanes " +
                        std::to_string(found.lanes)));
    }
    return {};
  });
}

TEST_CASE("flows: all ranks find the same, with as many lanes as carry it") {
  std::vector<Found> found(3);
  together(3, [&](Rank& r) -> Status {
    const CommHook none;
    const overlap::Collective collective = overlap::all_reduce_by(none);
    std::vector<overlap::Lane> lanes;
    lanes.push_back(TN_TRY(opener(r)(0)));
    const double flows = TN_TRY(
        overlap::measure_flows(r.device, lanes, 3, 1 << 16, collective, CostTable::linear(0, 10), opener(r)));
    found[r.rank] = {flows, lanes.size()};
    return expect(flows >= 1 && flows <= static_cast<double>(lanes.size()),
                  "flows: " + std::to_string(flows));
  });
  for (const Found& one : found) {
    CHECK(one.flows == found[0].flows);
    CHECK(one.lanes == found[0].lanes);
  }
}

TEST_CASE("flows: what moves too quickly to be told opens no lane") {
  together(1, [](Rank& r) -> Status {
    const overlap::Collective never = [](overlap::Lane&, const tn_span&, const tn_span&) {
      return Status(TN_INTERNAL, "a collective was tried");
    };
    std::vector<overlap::Lane> lanes;
    lanes.push_back(TN_TRY(opener(r)(0)));
    const double flows = TN_TRY(
        overlap::measure_flows(r.device, lanes, 3, 1 << 16, never, CostTable::linear(0, 0.1), opener(r)));
    return expect(flows == 1 && lanes.size() == 1, "flows: " + std::to_string(flows));
  });
}
