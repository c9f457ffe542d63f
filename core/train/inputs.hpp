// SPDX-License-Identifier: Apache-2.0
// inputs.hpp: what a step reads from the host comes on a copy stream, while the step before still computes.
//
// Invariant: memory on the device is written when the step that read it two steps ago is done, and read when it is there. The
// host waits only for its own memory's turn.
#pragma once

#include "overlap/stage.hpp"
#include "plan/state.hpp"

#include <tenon/timeline.hpp>

namespace tenon::train {

class Inputs {
 public:
  // The inputs of the plan but `apart`, which somebody else binds. [one thread; may block; may fail]
  static Result<Inputs> open(const Plan& plan, std::string_view apart, Device& device, Stream& compute);

  // Checks that each input is given once and fits, before anything is enqueued. [one thread; does not block; may fail]
  Status check(std::span<const Binding> given);
  // Sends the host's bytes to the device and lets `compute` wait for them; take(number, span) tells where a step finds the
  // input of this number. `given` was checked. [one thread; may block; may fail]
  template <class Take>
  Status feed(std::span<const Binding> given, Stream& compute, Timeline& timeline, Take&& take) {
    bool any = false;
    for (size_t i = 0; i < all_.size(); ++i) {
      const tn_span& from = given[order_[i]].span;
      const bool is_hosts = from.space == TN_SPACE_HOST_ADDRESS;
      if (is_hosts && !any) TN_TRY(begin_turn());
      if (is_hosts) TN_TRY(send(all_[i], from, timeline));
      any = any || is_hosts;
      take(all_[i].bound, is_hosts ? all_[i].places[turn_].span() : from);
    }
    return any ? arrived(compute) : Status();
  }
  // The step that was fed is enqueued on `compute`. [one thread; may block as Stream::record; may fail]
  Status used(Stream& compute);

  uint64_t bytes() const noexcept;
  size_t count() const noexcept { return all_.size(); }

 private:
  struct One {
    std::string name{};
    uint32_t bound = 0;
    uint64_t bytes = 0, at = 0;  // of the stage
    Buffer places[2]{};
  };

  Status begin_turn();
  Status send(One& one, const tn_span& from, Timeline& timeline);
  Status arrived(Stream& compute);

  std::vector<One> all_{};
  std::vector<size_t> order_{};  // for each of all_, its position in what was given
  std::string graph_{};          // its name, in messages
  Stream copies_{};
  overlap::Stage stages_[2]{};
  Point copied_[2]{}, used_[2]{};
  uint32_t turn_ = 0;
};

}  // namespace tenon::train
