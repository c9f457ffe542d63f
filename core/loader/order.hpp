// SPDX-License-Identifier: Apache-2.0
// order.hpp: which samples a step of an epoch has, and which of them are this rank's.
//
// An epoch is a permutation of all samples: Fisher and Yates' shuffle with Philox4x32-10, keyed by the seed and counted by
// position and epoch. Step s has the ranks · batch of it from s · ranks · batch on, rank r the r-th batch of them.
// Invariant: the samples of a step depend on ranks · batch and not on either, so 1 × 64 and 4 × 16 see the same.
#pragma once

#include <tenon/loader.hpp>

#include <optional>
#include <span>
#include <vector>

namespace tenon::loader {

// A place in the stream of batches.
struct Cursor {
  uint64_t epoch = 0, step = 0;
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// How much of a batch is there.
struct Share {
  uint64_t filled = 0;  // samples that are read
  uint64_t real = 0;    // of them, not repeated
};

class Order {
 public:
  // `options` were checked.
  Order(uint64_t samples, const LoaderOptions& options);

  // Of an epoch; 0 where Uneven::fixed leaves nothing. [any-thread; does not block; cannot fail]
  uint64_t steps() const noexcept;
  Cursor after(Cursor at) const noexcept;
  // Of this rank. [any-thread; does not block; cannot fail]
  Share share(uint64_t step) const noexcept;
  // The numbers of this rank's samples; `out` has room for a batch. Costs a shuffle when the epoch is another one than at
  // the last call. [one thread; does not block; cannot fail]
  Share samples(Cursor at, std::span<uint64_t> out);

 private:
  uint64_t first(uint64_t step) const noexcept { return (step * ranks_ + rank_) * batch_; }
  void shuffle(uint64_t epoch);

  uint64_t count_, batch_, rank_, ranks_;
  Uneven uneven_;
  bool shuffled_;
  uint64_t seed_;
  std::vector<uint64_t> permutation_{};  // of `epoch_`; empty: samples come as they are
  std::optional<uint64_t> epoch_{};
};

}  // namespace tenon::loader
