// SPDX-License-Identifier: Apache-2.0
// norm_batch.cpp: batch_norm_train, _infer, _apply and _stats: moments of a channel, and y = (x − mean)·slope + level.
//
// Invariant: moments are joined from stretches that fit in L1, each taken about its own mean, so a mean far larger than the
// spread costs them no accuracy. batch_norm_train makes elements of its statistics as they leave, so batch_norm_apply makes the
// same ones of these again, bit for bit (ADR 0043).
#include "joined.hpp"
#include "norm.hpp"
#include "norm_channels.hpp"
#include "norm_formulas.hpp"
#include "norm_loops.hpp"

#include <cmath>

namespace tenon::cpu {
namespace {

struct Places {
  Place scale, bias, mean, spread;                     // inputs; spread: variance or inverse deviation
  Place out_mean, out_spread, new_mean, new_variance;  // outputs
  Place slope, level, centre;                          // coefficients
};

template <class T>
class BatchNorm final : public ChannelStep {
 public:
  BatchNorm(Builder& builder, const Channels& shape, const tn_node& node, Chain in, Chain out,
            const Places& places)
      : ChannelStep(builder, shape, node.op == TN_OP_batch_norm_train || node.op == TN_OP_batch_norm_stats,
                    !out.empty(), sizeof(T), sizeof(T)),
        op_(node.op),
        epsilon_(author::attribute_f64(node, "epsilon").value_or(0)),
        momentum_(author::attribute_f64(node, "momentum").value_or(0)),
        in_(std::move(in)),
        out_(std::move(out)),
        places_(places) {
    generate();
  }

 private:
  // Of pixels, whose coefficients lie side by side as elements do.
  void generate() {
    using N = Joined::Number;
    if (!shape().pixels) return;
    folding_ =
        Joined(in_, false, nullptr, {Beside::changed, Beside::changed, Beside::one}, [](auto of, auto with) {
          norm::fold(with[0], with[1], of[0], with[2]);
          return N{};
        });
    if (out_.empty()) return;
    applying_ = Joined(in_, true, &out_, {Beside::each, Beside::each, Beside::each}, [](auto of, auto with) {
      return norm::normalised<N>(of[0], with[0], with[1], with[2]);
    });
  }

  const T* read(const Run& run, uint64_t at, uint32_t n, Chain::Scratch& scratch, bool stores) const {
    return static_cast<const T*>(in_.read(run, at, n, scratch, stores).of(0));
  }
  T* at(const Run& run, const Place& place) const { return reinterpret_cast<T*>(run.at(place)); }
  double input(const Run& run, const Place& place, uint64_t i) const {
    return static_cast<double>(at(run, place)[i]);
  }
  void output(const Run& run, const Place& place, uint64_t i, double value) const {
    if (place.kind != Place::Kind::none) at(run, place)[i] = static_cast<T>(value);
  }

  void fold_plane(const Run& run, uint64_t from, uint32_t n, uint64_t, ChannelSums& sums,
                  uint64_t count) const override {
    Chain::Scratch scratch;
    Moments moments{static_cast<double>(count), sums.a, sums.b};
    moments.join(loops_.moments(read(run, from, n, scratch, false), n));
    sums = {moments.mean, moments.spread};
  }

  // Blocks of periods are folded in T, one more row at a time, and joined in f64.
  void fold_periods(const Run& run, uint64_t first, uint64_t end, void* state, double* mean,
                    double* spread) const override {
    constexpr uint64_t rows = 64;
    const uint64_t period = shape().period, elements = shape().elements();
    T* const block_mean = static_cast<T*>(state);
    T* const block_spread = block_mean + period;
    for (uint64_t row = first; row < end;) {
      // A short period is a block of its own.
      const uint64_t whole = std::min(end, elements / period),
                     length = std::min(period, elements - row * period);
      const uint64_t block_end = row < whole ? std::min(row + rows, whole) : row + 1;
      std::fill_n(block_mean, 2 * period, T(0));
      const uint64_t begin = row;
      for (; row < block_end; ++row)
        fold_period(run, row * period, length, T(1) / static_cast<T>(row - begin + 1), block_mean,
                    block_spread);
      loops_.join_each(mean, spread, block_mean, block_spread, static_cast<double>(begin - first),
                       static_cast<double>(block_end - begin), length);
    }
  }

  void fold_period(const Run& run, uint64_t from, uint64_t length, T weight, T* mean, T* spread) const {
    if (folding_) return folding_.run(run, from, length, {mean, spread, &weight});
    Chain::Scratch scratch;
    for (uint64_t done = 0; done < length; done += shape().tile) {
      const auto n = static_cast<uint32_t>(std::min(shape().tile, length - done));
      loops_.fold_each(mean + done, spread + done, read(run, from + done, n, scratch, false), weight, n);
    }
  }

  void join_each(double* mean, double* spread, const double* more_mean, const double* more_spread,
                 double count, double more, uint64_t n) const override {
    in_doubles_.join_each(mean, spread, more_mean, more_spread, count, more, n);
  }

  void finish(const Run& run, uint64_t channel, const ChannelSums& sums) const override {
    const auto count = static_cast<double>(shape().count());
    if (op_ == TN_OP_batch_norm_stats) {
      output(run, places_.out_mean, channel, sums.a * count);
      output(run, places_.out_spread, channel,
             std::isinf(sums.a) ? std::fabs(sums.a) : sums.b + sums.a * sums.a * count);
      return;
    }
    double mean = sums.a, inverse = 0;
    if (op_ == TN_OP_batch_norm_train) {
      const double variance = count > 0 ? sums.b / count : 0;
      finish_running(run, channel, mean, variance * (count > 1 ? count / (count - 1) : 1));
      mean = static_cast<double>(static_cast<T>(mean));
      inverse = static_cast<double>(static_cast<T>(1 / std::sqrt(variance + epsilon_)));
    } else {
      mean = input(run, places_.mean, channel);
      inverse = input(run, places_.spread, channel);
      if (op_ == TN_OP_batch_norm_infer) inverse = 1 / std::sqrt(inverse + epsilon_);
    }
    output(run, places_.out_mean, channel, mean);
    output(run, places_.out_spread, channel, inverse);
    spread(at(run, places_.centre), channel, static_cast<T>(mean));
    spread(at(run, places_.slope), channel, static_cast<T>(inverse * input(run, places_.scale, channel)));
    spread(at(run, places_.level), channel, static_cast<T>(input(run, places_.bias, channel)));
  }

  void finish_running(const Run& run, uint64_t channel, double mean, double variance) const {
    output(run, places_.new_mean, channel,
           momentum_ * input(run, places_.mean, channel) + (1 - momentum_) * mean);
    output(run, places_.new_variance, channel,
           momentum_ * input(run, places_.spread, channel) + (1 - momentum_) * variance);
  }

  void apply_planes(const Run& run, uint64_t from, uint64_t planes, uint32_t n,
                    uint64_t channel) const override {
    Chain::Scratch in, out;
    const auto all = static_cast<uint32_t>(planes * n);
    const T* const x = read(run, from, all, in, true);
    T* const y = static_cast<T*>(out_.target(run, from, out));
    const T *centre = at(run, places_.centre) + channel, *slope = at(run, places_.slope) + channel,
            *level = at(run, places_.level) + channel;
    for (uint64_t i = 0; i < planes; ++i)
      loops_.normalise_run(y + i * n, x + i * n, centre[i], slope[i], level[i], n);
    out_.write(run, from, all, out);
  }

  void apply_pixels(const Run& run, uint64_t from, uint32_t n, uint64_t position) const override {
    if (applying_)
      return applying_.run(run, from, n,
                           {at(run, places_.centre) + position, at(run, places_.slope) + position,
                            at(run, places_.level) + position});
    Chain::Scratch in, out;
    const T* const x = read(run, from, n, in, true);
    loops_.normalise_each(static_cast<T*>(out_.target(run, from, out)), x, at(run, places_.centre) + position,
                          at(run, places_.slope) + position, at(run, places_.level) + position, n);
    out_.write(run, from, n, out);
  }

  const NormLoops<T>& loops_ = norm_loops<T>();
  const NormLoops<double>& in_doubles_ = norm_loops<double>();
  uint32_t op_;
  double epsilon_, momentum_;
  Chain in_, out_;
  Joined folding_, applying_;
  Places places_;
};

template <class T>
Status build(Builder& builder, const KernelGroup& group) {
  const tn_node& node = group.node;
  const uint32_t dtype = sizeof(T) == 8 ? TN_DTYPE_f64 : TN_DTYPE_f32;
  const TensorView x = builder.fragment().tensor(node.inputs[0]);
  const bool stats = node.op == TN_OP_batch_norm_stats;
  const Channels shape(x, Chain(class_of(dtype)).tile());
  Arrangement arrangement(builder, shape.order(x.rank()));
  FusedNodes fused(builder, arrangement, group);
  Chain in = TN_TRY(fused.read({&node.inputs[0], 1}));
  Chain out = stats ? Chain(class_of(dtype)) : TN_TRY(fused.write(node.outputs[0]));
  Places places;
  Place* const inputs[] = {&places.scale, &places.bias, &places.mean, &places.spread};
  for (uint32_t i = 1; i < node.input_count; ++i)
    *inputs[i - 1] = TN_TRY(arrangement.parameter(node.inputs[i], dtype));
  Place* const outputs[] = {&places.out_mean, &places.out_spread, &places.new_mean, &places.new_variance};
  for (uint32_t i = stats ? 0 : 1; i < node.output_count; ++i)
    *outputs[stats ? i : i - 1] = arrangement.statistic(node.outputs[i], dtype);
  for (Place* place : {&places.centre, &places.slope, &places.level})
    *place = builder.scratch(shape.coefficients() * sizeof(T));
  builder.add(std::make_unique<BatchNorm<T>>(builder, shape, node, std::move(in), std::move(out), places));
  return arrangement.finish();
}

}  // namespace

Status build_batch_norm(Builder& builder, const KernelGroup& group) {
  const bool wide = kernel_class(builder.fragment(), group.node) == Reg::f64;
  return wide ? build<double>(builder, group) : build<float>(builder, group);
}

}  // namespace tenon::cpu
