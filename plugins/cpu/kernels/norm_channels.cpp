// SPDX-License-Identifier: Apache-2.0
// norm_channels.cpp: the walk.
//
// Invariant: a piece's sums are written by one thread and joined by one thread, in the order of pieces.
#include "norm_channels.hpp"

#include "past_cache.hpp"

namespace tenon::cpu {
namespace {

constexpr uint64_t most_pieces = 64;
// A piece of pixels pays for sums of its own from here on.
constexpr uint64_t piece_grain = 128 << 10;
constexpr uint64_t least_periods = 16;
// Elements of pixels that are applied forwards before the walk steps back.
constexpr uint64_t stride_elements = 128 << 10;
// What a core's own cache holds beside everything else that is read meanwhile.
constexpr uint64_t cache_bytes = 1 << 20;

uint64_t pieces_of(const Channels& shape) {
  if (shape.pixels) {
    const uint64_t by_work = shape.elements() / piece_grain, by_periods = shape.periods() / least_periods;
    return std::clamp<uint64_t>(std::min(by_work, by_periods), 1, most_pieces);
  }
  if (shape.elements() < piece_grain) return 1;
  return std::clamp<uint64_t>(most_pieces / shape.blocks(), 1, shape.images);
}

}  // namespace

Channels::Channels(TensorView x, uint64_t longest) : inner(1), tile(longest) {
  images = static_cast<uint64_t>(x.dims()[0]);
  channels = static_cast<uint64_t>(x.dims()[1]);
  for (uint32_t i = 2; i < x.rank(); ++i) inner *= static_cast<uint64_t>(x.dims()[i]);
  pixels = true;
  pixels = inner == 1 || Arrangement::lies(x, order(x.rank()));
  if (elements() == 0) return;
  block = std::clamp<uint64_t>(2 * tile / inner, 1, channels);
  period = channels * std::max<uint64_t>(1, tile / channels);
  pieces = pieces_of(*this);
}

std::vector<uint32_t> Channels::order(uint32_t rank) const {
  std::vector<uint32_t> out{0};
  for (uint32_t i = 2; i < rank; ++i) out.push_back(i);
  out.insert(pixels ? out.end() : out.begin() + 1, 1);
  return out;
}

ChannelStep::ChannelStep(Builder& builder, const Channels& shape, bool folds, bool applies,
                         uint32_t footprint, uint32_t class_bytes)
    : shape_(shape), folds_(folds), applies_(applies), footprint_(footprint), class_bytes_(class_bytes) {
  if (!folds) return;
  partial_ = builder.scratch(shape.pieces * shape.channels * 2 * sizeof(double));
  if (shape.pixels)
    state_ = builder.scratch(shape.pieces * shape.period * 2 * (class_bytes + sizeof(double)));
}

Status ChannelStep::run(const Run& run) const {
  start(run);
  if (folds_ && applies_ && fits_cache() && shape_.blocks() >= 2 * run.team.threads()) {
    run_in_cache(run);
    return {};
  }
  if (folds_ && shape_.elements() > 0) fold(run);
  run.team.run(shape_.channels, parallel_grain / 128,
               [&](uint64_t first, uint64_t end) { finish_channels(run, first, end); });
  if (applies_ && shape_.elements() > 0) apply(run);
  return {};
}

bool ChannelStep::fits_cache() const noexcept {
  return !shape_.pixels && shape_.elements() > 0 && shape_.block * shape_.count() * footprint_ <= cache_bytes;
}

double* ChannelStep::partial(const Run& run, uint64_t piece) const noexcept {
  return reinterpret_cast<double*>(run.at(partial_)) + piece * shape_.channels * 2;
}

// The first image, or period, of a piece.
uint64_t ChannelStep::piece_begin(uint64_t piece) const noexcept {
  return (shape_.pixels ? shape_.periods() : shape_.images) * piece / shape_.pieces;
}

// Elements of one channel in a piece.
uint64_t ChannelStep::piece_count(uint64_t piece) const noexcept {
  const uint64_t first = piece_begin(piece), end = piece_begin(piece + 1);
  if (!shape_.pixels) return (end - first) * shape_.inner;
  return (std::min(end * shape_.period, shape_.elements()) - first * shape_.period) / shape_.channels;
}

void ChannelStep::run_in_cache(const Run& run) const {
  const uint64_t job = shape_.block * shape_.count();
  run.team.run(shape_.blocks(), std::max<uint64_t>(1, parallel_grain / job),
               [&](uint64_t block, uint64_t end) {
                 for (; block < end; ++block) {
                   for (uint64_t piece = 0; piece < shape_.pieces; ++piece) fold_block(run, piece, block);
                   const uint64_t first = block * shape_.block;
                   finish_channels(run, first, std::min(first + shape_.block, shape_.channels));
                   for (uint64_t image = 0; image < shape_.images; ++image) apply_block(run, image, block);
                 }
               });
}

void ChannelStep::fold(const Run& run) const {
  if (shape_.pixels) {
    run.team.run(shape_.pieces, 1, [&](uint64_t piece, uint64_t end) {
      for (; piece < end; ++piece) fold_piece_of_periods(run, piece);
    });
    return;
  }
  const uint64_t job = shape_.block * shape_.count() / shape_.pieces;
  run.team.run(shape_.blocks() * shape_.pieces, std::max<uint64_t>(1, parallel_grain / (job + 1)),
               [&](uint64_t at, uint64_t end) {
                 for (; at < end; ++at) fold_block(run, at % shape_.pieces, at / shape_.pieces);
               });
}

void ChannelStep::fold_block(const Run& run, uint64_t piece, uint64_t block) const {
  const uint64_t end = std::min((block + 1) * shape_.block, shape_.channels);
  for (uint64_t channel = block * shape_.block; channel < end; ++channel) {
    ChannelSums sums;
    uint64_t count = 0;
    for (uint64_t image = piece_begin(piece); image < piece_begin(piece + 1); ++image) {
      const uint64_t plane = (image * shape_.channels + channel) * shape_.inner;
      for (uint64_t done = 0; done < shape_.inner; done += shape_.tile) {
        const auto n = static_cast<uint32_t>(std::min(shape_.tile, shape_.inner - done));
        fold_plane(run, plane + done, n, channel, sums, count);
        count += n;
      }
    }
    double* const a = partial(run, piece);
    a[channel] = sums.a;
    a[shape_.channels + channel] = sums.b;
  }
}

// Sums for each element of a period, and then for each channel: all channels come as often in a period, and at each place as often
// as the others.
void ChannelStep::fold_piece_of_periods(const Run& run, uint64_t piece) const {
  const uint64_t period = shape_.period, first = piece_begin(piece), end = piece_begin(piece + 1);
  auto* a = reinterpret_cast<double*>(run.at(state_) + piece * period * 2 * (class_bytes_ + sizeof(double)));
  double* const b = a + period;
  std::fill_n(a, 2 * period, 0.0);
  fold_periods(run, first, end, b + period, a, b);
  const uint64_t elements = std::min(end * period, shape_.elements()) - first * period;
  const uint64_t whole = elements / period, rest = elements % period;
  double* const sums = partial(run, piece);
  std::fill_n(sums, 2 * shape_.channels, 0.0);
  uint64_t count = 0;
  for (uint64_t i = 0; i < period; i += shape_.channels) {
    const uint64_t more = whole + (i < rest ? 1 : 0);
    if (more == 0) break;
    join_each(sums, sums + shape_.channels, a + i, b + i, static_cast<double>(count),
              static_cast<double>(more), shape_.channels);
    count += more;
  }
}

void ChannelStep::finish_channels(const Run& run, uint64_t first, uint64_t end) const {
  if (!folds_ || shape_.elements() == 0) {
    for (uint64_t channel = first; channel < end; ++channel) finish(run, channel, {});
    return;
  }
  double *const a = partial(run, 0), *const b = a + shape_.channels;
  uint64_t count = piece_count(0);
  for (uint64_t piece = 1; piece < shape_.pieces; ++piece) {
    const uint64_t more = piece_count(piece);
    if (more == 0) continue;
    const double* const more_a = partial(run, piece);
    join_each(a + first, b + first, more_a + first, more_a + shape_.channels + first,
              static_cast<double>(count), static_cast<double>(more), end - first);
    count += more;
  }
  for (uint64_t channel = first; channel < end; ++channel) finish(run, channel, {a[channel], b[channel]});
}

// Pixels in strides backwards, each of them forwards: what was folded last is still in the cache, and the processor sees
// where a stride goes.
void ChannelStep::apply(const Run& run) const {
  if (!shape_.pixels) {
    const uint64_t job = shape_.block * shape_.inner;
    run.team.run(shape_.images * shape_.blocks(), std::max<uint64_t>(1, parallel_grain / job),
                 [&](uint64_t at, uint64_t end) {
                   for (; at < end; ++at) apply_block(run, at / shape_.blocks(), at % shape_.blocks());
                   finish_past_cache();
                 });
    return;
  }
  const uint64_t stride = std::max<uint64_t>(1, stride_elements / shape_.period);
  run.team.run(shape_.periods(), std::max<uint64_t>(1, parallel_grain / shape_.period),
               [&](uint64_t first, uint64_t end) {
                 while (end > first) {
                   const uint64_t begin = end - std::min(stride, end - first);
                   for (uint64_t period = begin; period < end; ++period) apply_period(run, period);
                   end = begin;
                 }
                 finish_past_cache();
               });
}

void ChannelStep::apply_period(const Run& run, uint64_t period) const {
  const uint64_t at = period * shape_.period, length = std::min(shape_.period, shape_.elements() - at);
  for (uint64_t done = 0; done < length; done += shape_.tile) {
    const auto n = static_cast<uint32_t>(std::min(shape_.tile, length - done));
    apply_pixels(run, at + done, n, done);
  }
}

void ChannelStep::apply_block(const Run& run, uint64_t image, uint64_t block) const {
  const uint64_t first = block * shape_.block, end = std::min(first + shape_.block, shape_.channels);
  const uint64_t at_once = std::max<uint64_t>(1, shape_.tile / shape_.inner);
  for (uint64_t channel = first; channel < end; channel += at_once) {
    const uint64_t planes = std::min(at_once, end - channel),
                   at = (image * shape_.channels + channel) * shape_.inner;
    if (shape_.inner <= shape_.tile) {
      apply_planes(run, at, planes, static_cast<uint32_t>(shape_.inner), channel);
      continue;
    }
    for (uint64_t done = 0; done < shape_.inner; done += shape_.tile) {
      const auto n = static_cast<uint32_t>(std::min(shape_.tile, shape_.inner - done));
      apply_planes(run, at + done, 1, n, channel);
    }
  }
}

}  // namespace tenon::cpu
