// SPDX-License-Identifier: Apache-2.0
// lasting.hpp: what lasts from step to step: parameters and states, where each is, and how numbers get in and out.
//
// Invariant: a half and its f32 master hold the same number, rounded, between steps. What a step renews in another place has
// two, which take turns.
#pragma once

#include "plan/state.hpp"

#include <tenon/executor.hpp>

namespace tenon::train {

class Lasting {
 public:
  struct Open {
    const TrainingGraph& step;
    const Plan& plan;
    std::span<const passes::Master> masters;
  };
  // [one thread; may block; may fail]
  static Result<Lasting> open(const Open& from, Device& device, Stream& stream);

  std::span<const Executor::Lasting> names() const noexcept { return names_; }
  Status set(Stream& stream, std::string_view name, std::span<const std::byte> bytes);
  Result<std::vector<std::byte>> get(Stream& stream, std::string_view name);
  // Where it is now. [one thread; does not block; may fail]
  Result<tn_span> place(std::string_view name) const;
  bool has(std::string_view name) const { return spec(name) != nullptr; }
  // As the step has it; nullptr for an unknown name. [one thread; does not block; cannot fail]
  const TensorSpec* spec(std::string_view name) const {
    const auto found = known_.find(std::string(name));
    return found != known_.end() ? &found->second.spec : nullptr;
  }
  // Those of the step that begin by initial_values, and have not yet.
  std::vector<std::string> not_begun() const;
  Status share(Stream& stream, Communicator& comm, uint32_t root);

  // Where a plan reads and writes what is kept, in the order in which it is kept: numbers of what the plan's caller binds.
  struct Tie {
    uint32_t read = TN_ABSENT, written = TN_ABSENT;
  };
  std::vector<Tie> ties(const Plan& plan) const;
  // For another plan of the step than the one opened with: what it cannot renew in place has two places from now on, so every plan
  // is to be bound anew. TN_INVALID naming a parameter that is not kept, or kept otherwise; nothing has changed after a failure.
  // [one thread; may block; may fail]
  Status agree(const Plan& plan, Device& device, Stream& stream);
  // Into `bound`, a span for each of what the caller of a plan binds: as a step reads and writes them when it is its turn.
  void bind(std::span<const Tie> ties, std::span<tn_span> bound, uint32_t turn) const;
  // What takes turns and a step of these ties does not write: from the place that is now to the other one, as the step's turn ends.
  // [stream's thread; does not block; may fail]
  Status carry(std::span<const Tie> ties, Stream& stream);
  // A step was enqueued.
  void renewed() noexcept { turn_ ^= 1u; }
  uint32_t turn() const noexcept { return turn_; }

  uint64_t bytes() const noexcept;
  // Of what steps renew.
  uint64_t in_place() const noexcept;
  uint64_t in_turns() const noexcept;

 private:
  static constexpr size_t none = SIZE_MAX;
  // A parameter of the plan's graph.
  struct Kept {
    std::string name{};
    TensorSpec spec{};
    std::string next{};  // the output that renews it; "" for none
    bool in_turns = false, begun = false;
    Buffer places[2]{};
  };
  // What a name of the step stands for.
  struct Named {
    TensorSpec spec{};      // as the step has it
    size_t at = none;       // where it is kept
    size_t rounded = none;  // or widened: the other one of a half and its master
  };

  Status allocate(Device& device, Stream& stream);
  void pair_masters(const Open& from);
  Result<const Named*> find(std::string_view name) const;
  const Buffer& now(const Kept& kept) const { return kept.places[kept.in_turns ? turn_ : 0]; }
  Status write(Stream& stream, Kept& to, DType from, std::span<const std::byte> bytes);

  std::vector<Kept> kept_{};
  std::vector<Executor::Lasting> names_{};
  std::unordered_map<std::string, Named> known_{};
  uint32_t turn_ = 0;
};

}  // namespace tenon::train
