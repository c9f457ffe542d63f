// SPDX-License-Identifier: Apache-2.0
// norm_channels.hpp: how the elements of [N, C, …] are walked channel by channel, and by whom.
//
// Two orders of memory: planes (NCHW: the elements of a channel of an image are neighbours) and pixels (NHWC: the channels
// of a place are). Work on a tensor is a fold (two sums per channel), a finish (sums to coefficients), and an apply. In
// planes whose channels fit in a core's cache, one thread does all three before it takes the next channels, so memory is
// read once.
// Invariant: how sums are cut and in what order they are joined depends on the shape alone, never on threads or caches.
#pragma once

#include "arrangement.hpp"

namespace tenon::cpu {

struct Channels {
  bool pixels = false;
  uint64_t images = 0, channels = 0, inner = 0;  // inner: places of one plane
  uint64_t tile = 1024;                          // longest stretch at once
  // Planes: channels of one job. Pixels: elements after which coefficients repeat, a multiple of the channels.
  uint64_t block = 1, period = 1;
  uint64_t pieces = 1;  // of the images or of the periods; each has sums of its own

  Channels() = default;
  Channels(TensorView x, uint64_t tile);

  uint64_t count() const noexcept { return images * inner; }  // of one channel
  uint64_t elements() const noexcept { return images * inner * channels; }
  uint64_t blocks() const noexcept { return (channels + block - 1) / block; }
  uint64_t periods() const noexcept { return (elements() + period - 1) / period; }
  // How many coefficients of a kind the apply reads: one for each channel, repeated over a period.
  uint64_t coefficients() const noexcept { return pixels ? period : channels; }
  std::vector<uint32_t> order(uint32_t rank) const;
};

// Two sums of one channel; what they mean is the kernel's business.
struct ChannelSums {
  double a = 0, b = 0;
};

class ChannelStep : public Step {
 public:
  Status run(const Run& run) const final;
  std::string engine() const final { return "norm"; }

 protected:
  // `folds`, `applies`: which of the three there is to do. `footprint`: bytes per element that a fold reads.
  ChannelStep(Builder& builder, const Channels& shape, bool folds, bool applies, uint32_t footprint,
              uint32_t class_bytes);

  const Channels& shape() const noexcept { return shape_; }
  // Sets a channel's coefficient wherever the apply looks for it.
  template <class T>
  void spread(T* coefficients, uint64_t channel, T value) const noexcept {
    if (!shape_.pixels) {
      coefficients[channel] = value;
      return;
    }
    for (uint64_t i = channel; i < shape_.period; i += shape_.channels) coefficients[i] = value;
  }

  // Before the first fold or apply, by one thread.
  virtual void start(const Run&) const {}
  // Folds [at, at + n), which is part of one plane, into its channel's sums, of `count` elements so far.
  virtual void fold_plane(const Run& run, uint64_t at, uint32_t n, uint64_t channel, ChannelSums& sums,
                          uint64_t count) const = 0;
  // Folds whole periods [first, end), the last of which may be short, into sums per element of a period. `state` is room
  // for two numbers of the kernel's type for each.
  virtual void fold_periods(const Run& run, uint64_t first, uint64_t end, void* state, double* a,
                            double* b) const = 0;
  // Joins the sums of n channels of `more` elements each to those of `count`.
  virtual void join_each(double* a, double* b, const double* more_a, const double* more_b, double count,
                         double more, uint64_t n) const = 0;
  virtual void finish(const Run& run, uint64_t channel, const ChannelSums& sums) const = 0;
  // [at, at + planes · n) is `planes` planes of n elements (or part of one) from `channel` on.
  virtual void apply_planes(const Run& run, uint64_t at, uint64_t planes, uint32_t n,
                            uint64_t channel) const = 0;
  // [at, at + n) lies `position` into a period.
  virtual void apply_pixels(const Run& run, uint64_t at, uint32_t n, uint64_t position) const = 0;

 private:
  bool fits_cache() const noexcept;
  // The sums of a piece: a of all channels, then b.
  double* partial(const Run& run, uint64_t piece) const noexcept;
  void run_in_cache(const Run& run) const;
  void fold(const Run& run) const;
  void fold_block(const Run& run, uint64_t piece, uint64_t block) const;
  void fold_piece_of_periods(const Run& run, uint64_t piece) const;
  void finish_channels(const Run& run, uint64_t first, uint64_t end) const;
  void apply(const Run& run) const;
  void apply_block(const Run& run, uint64_t image, uint64_t block) const;
  void apply_period(const Run& run, uint64_t period) const;
  uint64_t piece_begin(uint64_t piece) const noexcept;
  uint64_t piece_count(uint64_t piece) const noexcept;

  Channels shape_;
  bool folds_, applies_;
  uint32_t footprint_, class_bytes_;
  Place partial_{}, state_{};
};

}  // namespace tenon::cpu
