// SPDX-License-Identifier: Apache-2.0
// choices.cpp: recording, replaying, and the greedy search for a simpler list.
#include "conformance/ops/choices.hpp"

#include <algorithm>
#include <utility>

namespace tenon::conform {

uint64_t Choices::below(uint64_t bound) {
  uint64_t value = 0;
  if (source_ != nullptr) {
    value = source_->below(bound);
  } else if (made_.size() < given_.size()) {
    value = std::min(given_[made_.size()], bound - 1);
  }
  made_.push_back(value);
  return value;
}

namespace {

// The search, with what it may still spend.
class Shrinker {
 public:
  Shrinker(std::vector<uint64_t> failing, const std::function<bool(const std::vector<uint64_t>&)>& fails,
           unsigned attempts)
      : best_(std::move(failing)), fails_(fails), left_(attempts) {}

  std::vector<uint64_t> run() && {
    for (bool better = true; better && left_ > 0;) {
      better = cut_end();
      for (size_t i = 0; i < best_.size() && left_ > 0; ++i) better = lower(i) || leave_out(i) || better;
    }
    return std::move(best_);
  }

 private:
  bool accept(std::vector<uint64_t> candidate) {
    if (left_ == 0 || candidate == best_) return false;
    --left_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }
  bool cut_end() {
    bool better = false;
    for (size_t drop = best_.size() / 2; drop > 0; drop /= 2) {
      while (drop <= best_.size() && accept({best_.begin(), best_.end() - static_cast<std::ptrdiff_t>(drop)}))
        better = true;
    }
    return better;
  }
  // Whatever was drawn after it moves up: a dim goes away, and the others keep their size.
  bool leave_out(size_t i) {
    std::vector<uint64_t> candidate = best_;
    candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(i));
    return accept(std::move(candidate));
  }
  bool lower(size_t i) {
    bool better = false;
    for (const int step : {0, 1, 2}) {
      while (i < best_.size() && best_[i] > 0) {
        std::vector<uint64_t> candidate = best_;
        candidate[i] = step == 0 ? 0 : step == 1 ? candidate[i] / 2 : candidate[i] - 1;
        if (!accept(std::move(candidate))) break;
        better = true;
      }
    }
    return better;
  }

  std::vector<uint64_t> best_;
  const std::function<bool(const std::vector<uint64_t>&)>& fails_;
  unsigned left_;
};

}  // namespace

std::vector<uint64_t> shrink(std::vector<uint64_t> failing,
                             const std::function<bool(const std::vector<uint64_t>&)>& fails,
                             unsigned attempts) {
  return Shrinker(std::move(failing), fails, attempts).run();
}

}  // namespace tenon::conform
