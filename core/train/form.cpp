// SPDX-License-Identifier: Apache-2.0
// form.cpp: see form.hpp.
#include "train/form.hpp"

#include <algorithm>

namespace tenon::train {

void Form::bind(const Lasting& lasting, const tn_span& block) {
  if (!plan) return;  // a rank without samples, in sharded mode
  for (const Output& output : outputs) bound[output.bound] = output.place;
  for (const auto& [number, span] : fixed) bound[number] = span;
  if (averages) averages->bind(bound);
  for (const uint32_t turn : {0u, 1u}) {
    lasting.bind(ties, bound, turn);
    launches.bind(turn, bound, block);
  }
  replays.forget(stretches());
}

// Launches with nothing to do between them.
std::vector<Replays::Stretch> Form::stretches() const {
  std::vector<uint32_t> ends = averages ? averages->departures() : std::vector<uint32_t>();
  if (!averages)
    for (const Plan::State::Sum& sum : plan.state().sums) ends.push_back(sum.after);
  for (uint32_t& end : ends) ++end;
  if (averages) {
    const std::vector<uint32_t> begins = averages->arrivals();
    ends.insert(ends.end(), begins.begin(), begins.end());
  }
  ends.push_back(launches.count());
  std::sort(ends.begin(), ends.end());
  std::vector<Replays::Stretch> out;
  uint32_t first = 0;
  for (const uint32_t end : ends) {
    if (end > first) out.push_back({first, end});
    first = end;
  }
  return out;
}

const Form::Output* Form::find(std::string_view output) const noexcept {
  const auto found =
      std::find_if(outputs.begin(), outputs.end(), [&](const Output& one) { return one.name == output; });
  return found == outputs.end() ? nullptr : &*found;
}

bool Form::renews(uint32_t number) const {
  return std::any_of(ties.begin(), ties.end(),
                     [&](const Lasting::Tie& tie) { return tie.written == number; });
}

}  // namespace tenon::train
