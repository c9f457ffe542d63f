// SPDX-License-Identifier: Apache-2.0
// form.hpp: a step for batches of one size, or in sharded mode one half of it: its plan, and all that a run of it needs at hand.
//
// Invariant: forms of one executor read and write the same lasting values and send the same buckets.
#pragma once

#include "train/averages.hpp"
#include "train/diagnosis.hpp"
#include "train/lasting.hpp"
#include "train/launches.hpp"
#include "train/replays.hpp"
#include "train/split.hpp"

#include <optional>
#include <utility>

namespace tenon::train {

struct Form {
  // An output of the model that renews nothing.
  struct Output {
    std::string name{};
    TensorSpec spec{};
    uint32_t bound = 0;
    Buffer place{};
  };

  uint64_t samples = 1;  // that this rank brings; 0: it has none, and no output of the model
  Plan plan{};
  std::vector<Lasting::Tie> ties{};
  std::vector<Output> outputs{};
  std::optional<Averages> averages{};
  std::optional<Diagnosis> diagnosis{};  // since the first bad step that was seen
  Launches launches{};
  Replays replays{};
  std::vector<tn_span> bound{};  // what the plan's caller binds, in the turn that is bound
  std::vector<std::pair<uint32_t, tn_span>> fixed{};  // of these, what stays where it is
  // Sharded mode: outputs that this form's updates read, and what they call them.
  std::vector<Halves::Crossing> crossings{};
  std::vector<std::pair<uint32_t, tn_span>> crossing_to{};  // by numbers of what the updates' caller binds

  // The launches' spans anew, of both turns. [one thread; does not block; cannot fail]
  void bind(const Lasting& lasting, const tn_span& block);
  const Output* find(std::string_view output) const noexcept;
  bool renews(uint32_t number) const;

 private:
  std::vector<Replays::Stretch> stretches() const;
};

}  // namespace tenon::train
