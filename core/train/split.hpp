// SPDX-License-Identifier: Apache-2.0
// split.hpp: a step cut where its gradients are summed over ranks.
//
// Invariant: whatever follows from sums over ranks, and from what lasts, comes out as in the whole step.
#pragma once

#include <tenon/passes.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tenon::train {

// A step calls the sum of the gradients of "fc1.w" "fc1.w.gradient". Another name is its own parameter.
// [any-thread; does not block; cannot fail]
std::string gradient_of(std::string param);
std::string parameter_of(std::string sum);

// What a rank without samples runs: `graph` without its inputs. Each sum over ranks is an input of its name, and so is still the one
// that is called `divisor`; what follows from this rank's own samples is not there, and what served nobody else is left to
// `prune`. [any-thread; does not block; may fail]
Result<passes::Rewritten> updates_only(const Graph& graph, std::string_view divisor);

// A step in two.
struct Halves {
  // Something of the first half that the second one reads.
  struct Crossing {
    std::string output, input;
  };
  passes::Rewritten gradients;  // ends with the sums, which nobody reads
  passes::Rewritten updates;    // as updates_only, with what follows from samples beside the gradients
  std::vector<Crossing> crossings{};
};
// `work` is as passes left it that change nodes; its masters and notes stay with the first half. Sums of another communicator than that
// of gradients belong to whatever needs them. [any-thread; does not block; may fail]
Result<Halves> split(const passes::Rewritten& work, std::string_view divisor);

}  // namespace tenon::train
