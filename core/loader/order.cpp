// SPDX-License-Identifier: Apache-2.0
// order.cpp: permutations of epochs, and their slices.
#include "loader/order.hpp"

#include "loader/philox.hpp"

#include <algorithm>
#include <numeric>

namespace tenon {

std::string_view name(Uneven uneven) noexcept {
  switch (uneven) {
    case Uneven::pad:
      return "pad";
    case Uneven::fixed:
      return "fixed";
    case Uneven::join:
      return "join";
  }
  return "?";
}

}  // namespace tenon

namespace tenon::loader {

Order::Order(uint64_t samples, const LoaderOptions& options)
    : count_(samples),
      batch_(options.batch),
      rank_(options.rank),
      ranks_(options.ranks),
      uneven_(options.uneven),
      shuffled_(options.shuffle),
      seed_(options.seed) {}

uint64_t Order::steps() const noexcept {
  const uint64_t whole = count_ / (ranks_ * batch_), rest = count_ % (ranks_ * batch_);
  return whole + (rest != 0 && uneven_ != Uneven::fixed ? 1 : 0);
}

Cursor Order::after(Cursor at) const noexcept {
  return at.step + 1 < steps() ? Cursor{at.epoch, at.step + 1} : Cursor{at.epoch + 1, 0};
}

Share Order::share(uint64_t step) const noexcept {
  const uint64_t from = first(step), real = from < count_ ? std::min(batch_, count_ - from) : 0;
  return {.filled = uneven_ == Uneven::join ? real : batch_, .real = real};
}

Share Order::samples(Cursor at, std::span<uint64_t> out) {
  if (shuffled_ && epoch_ != at.epoch) shuffle(at.epoch);
  const Share share = this->share(at.step);
  for (uint64_t i = 0; i < share.filled; ++i) {
    const uint64_t position = (first(at.step) + i) % count_;
    out[i] = shuffled_ ? permutation_[position] : position;
  }
  return share;
}

void Order::shuffle(uint64_t epoch) {
  permutation_.resize(count_);
  std::iota(permutation_.begin(), permutation_.end(), uint64_t{0});
  const uint64_t key = key_of(seed_, Purpose::order);
  for (uint64_t left = count_; left > 1; --left) {
    const Draws draws = philox(key, left, epoch);
    const uint64_t wide =
        uint64_t{draws[1]} << 32 | draws[0];  // 2⁶⁴ is so much more that the remainder is fair
    std::swap(permutation_[left - 1], permutation_[wide % left]);
  }
  epoch_ = epoch;
}

}  // namespace tenon::loader
