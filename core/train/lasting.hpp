// SPDX-License-Identifier: Apache-2.0
// lasting.hpp: what lasts from step to step: parameters and states, where each is, and how numbers get in and out.
//
// Invariant: a half and its f32 master hold the same number, rounded, between steps. What a step renews in another place has
// two, which take turns. In sharded mode the weights lie where they are gathered, and of what belongs to them each rank has pieces.
#pragma once

#include "plan/state.hpp"
#include "train/pieces.hpp"

#include <tenon/executor.hpp>

#include <functional>

namespace tenon::train {

class Lasting {
 public:
  struct Open {
    const TrainingGraph& step;
    std::vector<const Plan*> plans{};  // that run one after the other, as a step
    std::span<const passes::Master> masters{};
    // Sharded mode: where a parameter lies that somebody else keeps, empty for one that is to be kept; and what is cut into pieces.
    std::function<tn_span(std::string_view)> elsewhere{};
    std::span<const PieceUpdates::Whole> wholes{};
    std::span<const PieceUpdates::Leaf> leaves{};
  };
  // `comm` brings pieces together. [one thread; may block; may fail]
  static Result<Lasting> open(const Open& from, Device& device, Stream& stream, const Communicator& comm);

  std::span<const Executor::Lasting> names() const noexcept { return names_; }
  Status set(Stream& stream, std::string_view name, std::span<const std::byte> bytes);
  // All ranks together for what they have pieces of.
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
  // Pieces are root's where it was given the whole since the last step; else each rank's own stay.
  Status share(Stream& stream, uint32_t root);

  // Where a plan reads and writes what is kept, in the order in which it is kept: numbers of what the plan's caller binds.
  struct Tie {
    uint32_t read = TN_ABSENT, written = TN_ABSENT;
  };
  std::vector<Tie> ties(const Plan& plan) const;
  // For another plan of the step than the one opened with: what it cannot renew in place has two places from now on, so every plan
  // is to be bound anew. TN_INVALID naming a parameter that is not kept, or kept otherwise; nothing has changed after a failure.
  // [one thread; may block; may fail]
  Status agree(const Plan& plan, Stream& stream);
  // Into `bound`, a span for each of what the caller of a plan binds: as a step reads and writes them when it is its turn.
  void bind(std::span<const Tie> ties, std::span<tn_span> bound, uint32_t turn) const;
  // What takes turns and a step of these ties does not write: from the place that is now to the other one, as the step's turn ends.
  // [stream's thread; does not block; may fail]
  Status carry(std::span<const Tie> ties, Stream& stream, Timeline& timeline);
  // What lies elsewhere and was not renewed in place gets there. [stream's thread; does not block; may fail]
  Status settle(Stream& stream, Timeline& timeline);
  // A step was enqueued.
  void renewed();
  uint32_t turn() const noexcept { return turn_; }

  uint64_t bytes() const noexcept;
  // Of what steps renew.
  uint64_t in_place() const noexcept;
  uint64_t in_turns() const noexcept;

 private:
  static constexpr size_t none = SIZE_MAX;
  // A parameter of the plans' graphs.
  struct Kept {
    std::string name{};
    TensorSpec spec{};
    std::string next{};   // the output that renews it; "" for none
    tn_span elsewhere{};  // where it is; empty: in places
    bool in_turns = false;
    bool settles = false;  // what is new is made in places[0], and copied
    Buffer places[2]{};
  };
  // Some of the elements of a home.
  struct Part {
    size_t at = none;  // where they are kept
    uint64_t first = 0;
  };
  // Where one tensor is: whole on every rank, or in this rank's pieces.
  struct Home {
    TensorSpec spec{};
    bool is_whole = true, begun = false;
    std::vector<Part> parts{};
    std::vector<std::byte> given{};  // pieces of all ranks, until a step is run or they are shared
  };
  // What a name of the step stands for.
  struct Named {
    TensorSpec spec{};      // as the step has it
    size_t at = none;       // its home
    size_t rounded = none;  // or widened: the other one of a half and its master
  };

  void keep(const Open& from);
  void keep(const std::string& name, const TensorSpec& spec, const PieceUpdates::Leaf* leaf,
            const Open& from);
  static Timeline::Work copy_of(const Kept& kept);
  static void renew(Kept& kept, const std::string& output, const Plan& plan);
  size_t add_home(const std::string& name, const TensorSpec& spec, bool is_whole);
  void pair_masters(const Open& from);
  Status allocate(Stream& stream);
  Result<const Named*> find(std::string_view name) const;
  tn_span now(const Kept& kept, uint32_t turn) const noexcept;
  Status write(Stream& stream, Home& to, DType from, std::span<const std::byte> bytes);
  Status put(Stream& stream, Home& to, std::span<const std::byte> bytes);
  Result<std::vector<std::byte>> read(Stream& stream, const Home& home);
  Status share_pieces(Stream& stream, uint32_t root);
  void forget_given();

  Device device_{};
  Communicator comm_{};
  std::vector<Kept> kept_{};
  std::vector<Home> homes_{};
  std::unordered_map<std::string, size_t> home_of_{};  // of a whole parameter's name
  std::vector<Executor::Lasting> names_{};
  std::unordered_map<std::string, Named> known_{};
  uint32_t turn_ = 0;
  bool was_given_ = false;  // some home was
};

}  // namespace tenon::train
