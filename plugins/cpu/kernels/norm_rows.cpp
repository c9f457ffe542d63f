// SPDX-License-Identifier: Apache-2.0
// norm_rows.cpp: layer_norm and rms_norm: statistics of a row, then the row once more from L1.
//
// Invariant: a long row's moments are joined from stretches of one tile, each about its own mean.
#include "joined.hpp"
#include "norm.hpp"
#include "norm_formulas.hpp"
#include "norm_loops.hpp"
#include "rows.hpp"

#include <cmath>
#include <limits>

namespace tenon::cpu {
namespace {

struct Places {
  Place scale, bias;  // bias: of layer norm
  Place out_mean, out_inverse;
};

template <class T>
class RowNorm final : public RowStep {
 public:
  RowNorm(Builder& builder, const Rows& shape, const tn_node& node, Chain in, Chain out, const Places& places)
      : RowStep(builder, shape, 2, sizeof(T)),
        centred_(node.op == TN_OP_layer_norm),
        epsilon_(author::attribute_f64(node, "epsilon").value_or(0)),
        in_(std::move(in)),
        out_(std::move(out)),
        places_(places) {
    generate();
  }

  std::string engine() const override { return "norm"; }

 private:
  T* at(const Run& run, const Place& place) const { return reinterpret_cast<T*>(run.at(place)); }

  // The pass that makes the result, to where that goes.
  void generate() {
    using N = Joined::Number;
    if (out_.empty()) return;
    if (centred_)
      last_ = Joined(
          Chain(), false, &out_, {Beside::row, Beside::one, Beside::one, Beside::each, Beside::each},
          [](auto, auto with) {
            return norm::normalised_in_row<N>(with[0], with[1], with[2], with[3], with[4]);
          },
          shape().length * sizeof(T));
    else
      last_ = Joined(Chain(), false, &out_, {Beside::each, Beside::one, Beside::each},
                     [](auto, auto with) { return norm::scaled_in_row<N>(with[0], with[1], with[2]); });
  }

  void run_lane(const Run& run, uint64_t lane, uint64_t first, uint64_t end) const override {
    Chain::Scratch scratch;
    void* const rows[] = {room(run, lane, 0), nullptr};
    for (uint64_t row = first; row < end; ++row) {
      const uint64_t from = row * shape().length;
      const auto* x = static_cast<const T*>(in_.read_row(run, from, shape().length, scratch, rows).of(0));
      double mean = 0;
      ask_for_row(x + shape().length, shape().length * sizeof(T));
      const double inverse = 1 / std::sqrt((centred_ ? variance(x, mean) : square(x)) + epsilon_);
      if (T* const to = at(run, places_.out_mean); to != nullptr && centred_) to[row] = static_cast<T>(mean);
      if (T* const to = at(run, places_.out_inverse); to != nullptr) to[row] = static_cast<T>(inverse);
      if (out_.empty()) continue;
      if (last_) {
        run_last(run, from, x, static_cast<T>(mean), static_cast<T>(inverse));
        continue;
      }
      T* const y = static_cast<T*>(out_.target_row(run, from, room(run, lane, 1)));
      normalise(run, y, x, static_cast<T>(mean), static_cast<T>(inverse));
      out_.write_row(run, from, shape().length, scratch, y);
    }
  }

  void run_last(const Run& run, uint64_t from, const T* x, T mean, T inverse) const {
    const T* const scale = at(run, places_.scale);
    if (centred_)
      last_.run(run, from, shape().length, {x, &mean, &inverse, scale, at(run, places_.bias)});
    else
      last_.run(run, from, shape().length, {x, &inverse, scale});
  }

  double variance(const T* x, double& mean) const {
    Moments all;
    for (uint64_t done = 0; done < shape().length; done += in_.tile())
      all.join(loops_.moments(x + done, std::min<uint64_t>(in_.tile(), shape().length - done)));
    mean = all.count > 0 ? all.mean : std::numeric_limits<double>::quiet_NaN();
    return all.spread / all.count;
  }
  double square(const T* x) const {
    double all = 0;
    for (uint64_t done = 0; done < shape().length; done += in_.tile())
      all += loops_.squares(x + done, std::min<uint64_t>(in_.tile(), shape().length - done));
    return all / static_cast<double>(shape().length);
  }

  void normalise(const Run& run, T* y, const T* x, T mean, T inverse) const {
    const T* const scale = at(run, places_.scale);
    if (centred_) {
      loops_.normalise_row(y, x, mean, inverse, scale, at(run, places_.bias), shape().length);
    } else {
      loops_.scale_row(y, x, inverse, scale, shape().length);
    }
  }

  const NormLoops<T>& loops_ = norm_loops<T>();
  bool centred_;
  double epsilon_;
  Chain in_, out_;
  Joined last_;
  Places places_;
};

template <class T>
Status build(Builder& builder, const KernelGroup& group, unsigned threads) {
  const tn_node& node = group.node;
  const uint32_t dtype = sizeof(T) == 8 ? TN_DTYPE_f64 : TN_DTYPE_f32;
  const TensorView x = builder.fragment().tensor(node.inputs[0]);
  const bool centred = node.op == TN_OP_layer_norm;
  const uint64_t length = row_length(x, node);
  const Rows shape = Rows::by_threads(row_count(x, node), length, threads);
  Arrangement arrangement(builder, order_with_last(x.rank(), x.rank() - 1));
  FusedNodes fused(builder, arrangement, group);
  Chain in = TN_TRY(fused.read({node.inputs, 1}));
  Chain out = TN_TRY(fused.write(node.outputs[0]));
  Places places;
  places.scale = TN_TRY(arrangement.parameter(node.inputs[1], dtype));
  if (centred) places.bias = TN_TRY(arrangement.parameter(node.inputs[2], dtype));
  const auto statistic = [&](uint32_t i) {
    return i < node.output_count ? arrangement.statistic(node.outputs[i], dtype) : Place{};
  };
  if (centred) places.out_mean = statistic(1);
  places.out_inverse = statistic(centred ? 2 : 1);
  builder.add(std::make_unique<RowNorm<T>>(builder, shape, node, std::move(in), std::move(out), places));
  return arrangement.finish();
}

}  // namespace

uint64_t row_count(TensorView x, const tn_node& node) {
  const auto axes = static_cast<size_t>(author::attribute_i64(node, "axes").value_or(1));
  uint64_t count = 1;
  for (const int64_t dim : x.dims().first(x.rank() - axes)) count *= static_cast<uint64_t>(dim);
  return count;
}

uint64_t row_length(TensorView x, const tn_node& node) {
  const auto axes = static_cast<size_t>(author::attribute_i64(node, "axes").value_or(1));
  uint64_t length = 1;
  for (const int64_t dim : x.dims().last(axes)) length *= static_cast<uint64_t>(dim);
  return length;
}

Status build_row_norm(Builder& builder, const KernelGroup& group, unsigned threads) {
  const bool wide = kernel_class(builder.fragment(), group.node) == Reg::f64;
  return wide ? build<double>(builder, group, threads) : build<float>(builder, group, threads);
}

}  // namespace tenon::cpu
