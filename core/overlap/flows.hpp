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

// Adds lanes by `open`, up to `most`, while one more carries more; `lanes` has those that did. How many times as many bytes they move
// together as the first one alone: of `collective`, at most of `bytes`, which costs `cost` alone. 1 where nothing takes long enough
// to tell. [all ranks; blocks; may fail]
Result<double> measure_flows(Device& device, std::vector<Lane>& lanes, uint32_t most, uint64_t bytes,
                             const Collective& collective, const CostTable& cost,
                             const std::function<Result<Lane>(uint32_t number)>& open);

}  // namespace tenon::overlap
