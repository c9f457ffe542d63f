// SPDX-License-Identifier: Apache-2.0
// capture.hpp: what a capture of the simulated device holds.
//
// Invariant: the card that a step works on lives as long as the step.
#pragma once

#include <tenon/author/recording.hpp>

#include <functional>

namespace tenon::sim {

struct Step {
  std::function<Status()> run;
  std::shared_ptr<const void> card;
};
using Recording = author::Recording<Step>;

// What `end` gives out. Replays in flight share the recording, so it ends with the last of them.
struct Capture {
  std::shared_ptr<const Recording> recording;
};

}  // namespace tenon::sim
