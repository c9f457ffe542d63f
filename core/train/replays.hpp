// SPDX-License-Identifier: Apache-2.0
// replays.hpp: stretches of a step's launches, captured once and replayed as one operation each.
//
// Steps differ only in where their inputs lie and in which of two places lasting values are. A state of affairs that comes a
// second time is captured; before that, and of those beyond a few, launches go one by one.
// Invariant: a stretch is replayed only with the very places that it was captured with.
#pragma once

#include <tenon/capture.hpp>

#include <span>
#include <string>
#include <vector>

namespace tenon::train {

class Replays {
 public:
  struct Stretch {
    uint32_t first = 0, end = 0;  // launches
  };

  // Captures nothing, because of `why`.
  explicit Replays(std::string why = "it was not asked for") : why_not_(std::move(why)) {}
  // For steps of `inputs` inputs.
  Replays(bool captures, size_t inputs) : captures_(captures), places_(inputs) {}

  // What is captured holds no more; stretches from now on. [one thread; may block; cannot fail]
  void forget(std::vector<Stretch> stretches);
  // Where input `i` of the step that begins lies. [one thread; does not block; cannot fail]
  void put(size_t i, const tn_span& place) noexcept {
    if (captures_) places_[i] = place;
  }
  // A step begins, its inputs in place. `by_hand`: its launches are to be seen one by one.
  // [one thread; does not block; cannot fail]
  void begin(uint32_t turn, bool by_hand);

  std::span<const Stretch> stretches() const noexcept { return stretches_; }
  bool by_hand() const noexcept { return now_ == nullptr; }
  // Enqueues stretch `i` unless by_hand: replays it, after capturing what `launch` enqueues where this is the time for it.
  // What the device does not capture is told once, in `why_not`, and launched. [stream's thread; may fail as `launch`]
  Status enqueue(Stream& compute, size_t i, const std::function<Status()>& launch);
  // The step is enqueued. [one thread; does not block; cannot fail]
  void end() noexcept;

  uint64_t steps() const noexcept { return steps_; }  // that were replayed
  const std::string& why_not() const noexcept { return why_not_; }

 private:
  // A state of affairs.
  struct Variant {
    uint32_t turn = 0;
    std::vector<tn_span> places{};
    std::vector<Capture> captures{};  // of the stretches; fewer: not all are captured yet
  };
  static constexpr size_t most = 8;   // two turns of lasting values by four slots of a loader
  static constexpr uint32_t few = 2;  // launches, which are as quick one by one

  bool fits(const Variant& variant, uint32_t turn) const noexcept;
  Status give_up(const Status& why, const std::function<Status()>& launch);

  bool captures_ = false;
  std::string why_not_{};
  std::vector<Stretch> stretches_{};
  std::vector<tn_span> places_{};
  std::vector<Variant> variants_{};
  Variant* now_ = nullptr;
  uint64_t steps_ = 0;
};

}  // namespace tenon::train
