// SPDX-License-Identifier: Apache-2.0
// replays.cpp: see replays.hpp.
#include "train/replays.hpp"

#include <algorithm>

namespace tenon::train {
namespace {

bool is_same(const tn_span& a, const tn_span& b) noexcept {
  return a.memory == b.memory && a.offset == b.offset && a.bytes == b.bytes && a.space == b.space;
}

}  // namespace

void Replays::forget(std::vector<Stretch> stretches) {
  now_ = nullptr;
  variants_.clear();
  if (captures_) variants_.reserve(most);
  stretches_ = std::move(stretches);
}

bool Replays::fits(const Variant& variant, uint32_t turn) const noexcept {
  return variant.turn == turn &&
         std::equal(places_.begin(), places_.end(), variant.places.begin(), variant.places.end(), is_same);
}

void Replays::begin(uint32_t turn, bool by_hand) {
  now_ = nullptr;
  if (!captures_ || by_hand) return;
  const auto found = std::find_if(variants_.begin(), variants_.end(),
                                  [&](const Variant& variant) { return fits(variant, turn); });
  if (found != variants_.end()) {
    now_ = &*found;
  } else if (variants_.size() < most) {
    variants_.push_back({.turn = turn, .places = places_});
  }
}

Status Replays::enqueue(Stream& compute, size_t i, const std::function<Status()>& launch) {
  if (stretches_[i].end - stretches_[i].first < few) {
    if (now_->captures.size() == i) now_->captures.emplace_back();
    return launch();
  }
  if (now_->captures.size() == i) {
    auto made = Capture::of(compute, launch);
    if (!made.ok()) return give_up(std::move(made).failure(), launch);
    now_->captures.push_back(*std::move(made));
  }
  return now_->captures[i].replay(compute);
}

// What stands before on the stream was launched or replayed; this stretch was not enqueued.
Status Replays::give_up(const Status& why, const std::function<Status()>& launch) {
  captures_ = false;
  why_not_ = why.message();
  now_ = nullptr;
  return launch();
}

void Replays::end() noexcept {
  if (now_ != nullptr) ++steps_;
}

}  // namespace tenon::train
