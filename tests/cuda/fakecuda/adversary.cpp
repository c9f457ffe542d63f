// SPDX-License-Identifier: Apache-2.0
// adversary.cpp: moods, and what each of them likes.
#include "adversary.hpp"

#include <algorithm>

namespace fakecuda {

void Adversary::change_mood(const std::vector<TaskPtr>& ready) {
  mood_ = static_cast<Mood>(draw(static_cast<uint64_t>(Mood::count)));
  left_ = 1 + draw(24);
  victim_ = ready[draw(ready.size())]->stream;
}

uint64_t Adversary::liking(const Task& task, const Tasks& needed) const {
  const auto of_another_stream = [&](const TaskPtr& other) { return other->stream != task.stream; };
  switch (mood_) {
    case Mood::newest:
      return task.id;
    case Mood::copies_last:
      return task.work.kind == Kind::copy || task.work.kind == Kind::fill ? 0 : 1;
    case Mood::starve:
      return task.stream == victim_ ? 0 : 1;
    case Mood::producers_last:
      return std::any_of(task.before.begin(), task.before.end(), of_another_stream) ? 0 : 1;
    case Mood::needed_only:
      return needed.contains(&task) ? 1 : 0;
    case Mood::any:
    case Mood::count:
      break;
  }
  return 0;
}

size_t Adversary::pick(const std::vector<TaskPtr>& ready, const std::function<Tasks()>& needed) {
  if (left_ == 0) change_mood(ready);
  --left_;
  const Tasks wanted = mood_ == Mood::needed_only ? needed() : Tasks{};
  std::vector<size_t> best;
  uint64_t most = 0;
  for (size_t i = 0; i < ready.size(); ++i) {
    const uint64_t liked = liking(*ready[i], wanted);
    if (best.empty() || liked > most) {
      best.assign(1, i);
      most = liked;
    } else if (liked == most) {
      best.push_back(i);
    }
  }
  return best[draw(best.size())];
}

}  // namespace fakecuda
