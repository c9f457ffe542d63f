// SPDX-License-Identifier: Apache-2.0
// launches.cpp: see launches.hpp.
#include "train/launches.hpp"

namespace tenon::train {
Launches::Launches(const Plan& plan) : plan_(plan), bound_(plan.state().bound.size()) {
  size_t count = 0;
  for (const Plan::State::Launch& launch : plan_.state().launches) {
    first_.push_back(count);
    for (const Plan::State::Slot& slot : launch.slots) {
      if (slot.bound != Plan::State::in_block) bound_[slot.bound].push_back(count);
      ++count;
    }
  }
  for (auto& spans : spans_) spans.resize(count);
  workspaces_.resize(first_.size());
}

void Launches::bind(uint32_t turn, std::span<const tn_span> bound, const tn_span& block) {
  size_t at = 0;
  for (size_t i = 0; i < first_.size(); ++i) {
    const Plan::State::Launch& launch = plan_.state().launches[i];
    for (const Plan::State::Slot& slot : launch.slots)
      spans_[turn][at++] = slot.bound != Plan::State::in_block ? bound[slot.bound] : slot.in(block);
    workspaces_[i] = launch.workspace.bytes == 0 ? tn_span{} : launch.workspace.in(block);
  }
}

void Launches::put(uint32_t number, const tn_span& span) {
  for (const size_t at : bound_[number]) spans_[0][at] = spans_[1][at] = span;
}

Status Launches::enqueue(Stream& stream, uint32_t at, uint32_t turn, Timeline& timeline) const {
  const Plan::State::Launch& launch = plan_.state().launches[at];
  if (!launch.kernel) return {};
  const std::span<const tn_span> spans = std::span(spans_[turn]).subspan(first_[at], launch.slots.size());
  return timeline.measure(stream, {.kind = launch.kind, .name = launch.name, .bytes = launch.bytes},
                          [&] { return launch.kernel.launch(stream, spans, workspaces_[at]); });
}

}  // namespace tenon::train
