// SPDX-License-Identifier: Apache-2.0
// flows.hpp: how many streams' bandwidth a link carries, measured.
//
// A wire that gives each connection a share of its own carries more than one stream brings.
// Invariant: what leaves this file is the same on all ranks.
#pragma once

#include "overlap/trial.hpp"

#include <tenon/overlap.hpp>

#include <functional>
#include <vector>

namespace tenon::overlap {

using OpenLane = std::function<Result<Lane>(uint32_t number)>;
// How many times as many bytes some lanes move together as the first of them alone.
using Carried = std::function<Result<double>(std::vector<Lane>& lanes)>;

// Adds lanes by `open`, up to `most`, while `carried` has one more carry more; `lanes` has those that did. What they carry.
// [all ranks; blocks; may fail]
Result<double> add_lanes(std::vector<Lane>& lanes, uint32_t most, const OpenLane& open,
                         const Carried& carried);
// The same by what `collective` takes, of at most `bytes`, which costs `cost` alone. 1 where nothing takes long enough to tell.
// [all ranks; blocks; may fail]
Result<double> measure_flows(Device& device, std::vector<Lane>& lanes, uint32_t most, uint64_t bytes,
                             const Collective& collective, const CostTable& cost, const OpenLane& open);

}  // namespace tenon::overlap
