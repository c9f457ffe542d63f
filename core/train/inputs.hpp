// SPDX-License-Identifier: Apache-2.0
// inputs.hpp: what a step reads from the host comes on a copy stream, while the step before still computes.
//
// A batch has one of several shapes; that of the plan opened with is the fullest.
// Invariant: memory on the device is written when the step that read it two steps ago is done, and read when it is there. The
// host waits only for its own memory's turn.
#pragma once

#include "overlap/stage.hpp"
#include "plan/state.hpp"

#include <tenon/timeline.hpp>

namespace tenon::train {

// Why nothing of `dtype` can lie where a binding says, in words that follow its name; "" when it can. Sizes are not looked at.
// [any-thread; does not block; may throw bad_alloc]
std::string why_no_place(const Binding& binding, DType dtype);

class Inputs {
 public:
  // What is given has no bytes at all: this rank has no samples.
  static constexpr size_t no_shape = SIZE_MAX;

  // Room for the inputs of the plan but `apart`, which somebody else binds; no shape yet. [one thread; may block; may fail]
  static Result<Inputs> open(const Plan& plan, std::string_view apart, Device& device, Stream& compute);
  // An input in a batch of one shape; its number among what the plan's caller binds.
  struct Shaped {
    uint32_t bound = TN_ABSENT;
    uint64_t bytes = 0;
  };
  using Shape = std::vector<Shaped>;  // in the order of the inputs

  // The inputs of a plan. TN_INVALID naming one that the fullest batch has not, or has shorter; or when there is such a shape.
  // [one thread; does not block; may fail]
  Result<Shape> shape(const Plan& plan, std::string_view apart) const;
  // Of a plan without these inputs.
  Shape none() const { return Shape(all_.size()); }
  // One more shape, with the next number.
  void add(Shape shape) { shapes_.push_back(std::move(shape)); }

  // Checks that each input is given once, before anything is enqueued: the number of the shape that it all fits.
  // [one thread; does not block; may fail]
  Result<size_t> check(std::span<const Binding> given);
  // Sends the host's bytes to the device and lets `compute` wait for them; take(number, span) tells where a step finds the
  // input of this number. `given` was checked, and is of this shape. [one thread; may block; may fail]
  template <class Take>
  Status feed(size_t shape, std::span<const Binding> given, Stream& compute, Timeline& timeline,
              Take&& take) {
    bool any = false;
    for (size_t i = 0; i < all_.size(); ++i) {
      const uint32_t bound = shapes_[shape][i].bound;
      if (bound == TN_ABSENT) continue;
      const tn_span& from = given[order_[i]].span;
      const bool is_hosts = from.space == TN_SPACE_HOST_ADDRESS;
      if (is_hosts && !any) TN_TRY(begin_turn(timeline));
      if (is_hosts) TN_TRY(send(all_[i], from, timeline));
      any = any || is_hosts;
      take(bound, is_hosts ? place(all_[i], from.bytes) : from);
    }
    return any ? arrived(compute, timeline) : Status();
  }
  // The step that was fed is enqueued on `compute`. [one thread; may block as Stream::record; may fail]
  Status used(Stream& compute);

  uint64_t bytes() const noexcept;
  size_t count() const noexcept { return all_.size(); }

 private:
  struct One {
    std::string name{};
    DType dtype{};
    uint64_t bytes = 0, at = 0;  // at its fullest; of the stage
    Buffer places[2]{};
  };
  Result<size_t> fitting(std::span<const Binding> given) const;
  // Its first `bytes` bytes on the device, in this turn.
  tn_span place(const One& one, uint64_t bytes) const {
    tn_span span = one.places[turn_];
    span.bytes = bytes;
    return span;
  }

  Status begin_turn(Timeline& timeline);
  Status send(One& one, const tn_span& from, Timeline& timeline);
  Status arrived(Stream& compute, Timeline& timeline);

  std::vector<One> all_{};
  std::vector<Shape> shapes_{};
  std::vector<size_t> order_{};  // for each of all_, its position in what was given
  std::string graph_{};          // its name, in messages
  Stream copies_{};
  overlap::Stage stages_[2]{};
  Point copied_[2]{}, used_[2]{};
  uint32_t turn_ = 0;
};

}  // namespace tenon::train
