// SPDX-License-Identifier: Apache-2.0
// state.hpp: what stands behind an Executor.
//
// Invariant: nothing of a step is enqueued before all that it is given was found right; once something was, a failure is the
// end.
#pragma once

#include "train/averages.hpp"
#include "train/diagnosis.hpp"
#include "train/inputs.hpp"
#include "train/lasting.hpp"
#include "train/launches.hpp"
#include "train/replays.hpp"

#include <optional>

namespace tenon {

struct Executor::State {
  // An output of the model that renews nothing.
  struct Output {
    std::string name{};
    TensorSpec spec{};
    uint32_t bound = 0;
    Buffer place{};
  };

  TrainingGraph step;
  Strategy strategy;
  Device device;
  Communicator comm;
  Timeline timeline{};
  Stream compute{};
  std::vector<passes::Note> notes{};
  Plan plan{};
  Buffer block{};
  train::Lasting lasting{};
  train::Inputs inputs{};
  std::vector<Output> outputs{};
  std::optional<train::Averages> averages{};
  std::optional<train::Diagnosis> diagnosis{};  // since the first bad step that was seen
  train::Launches launches{};
  train::Replays replays{};
  std::vector<tn_span> bound{};  // what the plan's caller binds, in the turn that is bound
  uint64_t steps = 0;
  bool has_begun = false;  // all parameters have
  std::optional<Error> failure{};

  // The launches' spans anew, of both turns. [one thread; does not block; cannot fail]
  void bind();
  // [one thread; does not block; may fail]
  Status check(std::span<const Binding> inputs);
  Status check_fetches(std::span<const Binding> fetches) const;
  // Enqueues one step; a failure is kept. [one thread; may block; may fail]
  Status run(std::span<const Binding> given);
  // Waits; tells a bad step with its reason. [one thread; blocks; may fail]
  Status fetch(std::span<const Binding> fetches);
  // Keeps a failure, and tells what it means. [cannot fail]
  Status ended(Status status);
  const Output* find(std::string_view output) const noexcept;

 private:
  Status enqueue(std::span<const Binding> given);
  Status enqueue_stretch(size_t number);
  std::vector<train::Replays::Stretch> stretches() const;
  Status fetch_all(std::span<const Binding> fetches);
  Status tell_bad_step();
};

}  // namespace tenon
