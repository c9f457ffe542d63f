// SPDX-License-Identifier: Apache-2.0
// norm_rows_grad.cpp: layer_norm_grad and rms_norm_grad: dx row by row, the parameters' gradients as sums over rows.
//
// Invariant: the parameters' sums are kept in the kernel's type over at most 64 rows, then in f64, and joined lane by lane.
#include "joined.hpp"
#include "norm.hpp"
#include "norm_formulas.hpp"
#include "norm_loops.hpp"
#include "rows.hpp"

namespace tenon::cpu {
namespace {

struct Places {
  Place scale, mean, inverse;  // mean: of layer norm
  Place out_scale, out_bias;   // Σ over rows
  Place sums;                  // of each lane: dscale and dbias in f64
};

template <class T>
class RowNormGrad final : public RowStep {
 public:
  RowNormGrad(Builder& builder, const Rows& shape, bool centred, Chain in, Chain out, const Places& places)
      : RowStep(builder, shape, 5, sizeof(T)),
        centred_(centred),
        in_(std::move(in)),
        out_(std::move(out)),
        places_(places) {
    generate();
  }

  Status run(const Run& run) const override {
    run_lanes(run);
    run.team.run(shape().length, parallel_grain / shape().lanes,
                 [&](uint64_t first, uint64_t end) { join(run, first, end); });
    return {};
  }
  std::string engine() const override { return "norm"; }

 private:
  T* at(const Run& run, const Place& place) const { return reinterpret_cast<T*>(run.at(place)); }
  double* sums(const Run& run, uint64_t lane) const {
    return reinterpret_cast<double*>(run.at(places_.sums)) + lane * 2 * shape().length;
  }
  // The pass that makes dx, to where that goes.
  void generate() {
    using N = Joined::Number;
    if (out_.empty()) return;
    last_ = Joined(
        Chain(), false, &out_,
        {Beside::each, Beside::row, Beside::each, Beside::one, Beside::one, Beside::one, Beside::one},
        [](auto, auto with) {
          return norm::gradient_in_row<N>(with[0], with[1], with[2], with[3], with[4], with[5], with[6]);
        },
        shape().length * sizeof(T));
  }

  T* row_of(const Run& run, uint64_t lane, uint32_t buffer) const {
    return reinterpret_cast<T*>(room(run, lane, buffer));
  }

  void run_lane(const Run& run, uint64_t lane, uint64_t first, uint64_t end) const override {
    constexpr uint64_t block = 64;
    const uint64_t n = shape().length;
    T *dscale = row_of(run, lane, 3), *dbias = row_of(run, lane, 4);
    std::fill_n(sums(run, lane), 2 * n, 0.0);
    while (first < end) {
      std::fill_n(dscale, n, T(0));
      std::fill_n(dbias, n, T(0));
      for (const uint64_t block_end = std::min(first + block, end); first < block_end; ++first)
        run_row(run, lane, first, dscale, dbias);
      loops_.add_each(sums(run, lane), dscale, n);
      loops_.add_each(sums(run, lane) + n, dbias, n);
    }
  }

  void run_row(const Run& run, uint64_t lane, uint64_t row, T* dscale, T* dbias) const {
    Chain::Scratch scratch;
    const uint64_t n = shape().length;
    void* const rows[] = {room(run, lane, 0), room(run, lane, 1)};
    const Chain::Tiles read = in_.read_row(run, row * n, n, scratch, rows);
    const auto *g = static_cast<const T*>(read.of(0)), *x = static_cast<const T*>(read.of(1));
    const T *scale = at(run, places_.scale), mean = centred_ ? at(run, places_.mean)[row] : T(0),
            inverse = at(run, places_.inverse)[row];
    Dots dots;
    for (uint64_t done = 0; done < n; done += in_.tile()) {
      const Dots more = loops_.dots_row(g + done, x + done, scale + done, mean, inverse, dscale + done,
                                        dbias + done, std::min<uint64_t>(in_.tile(), n - done), n);
      dots.sum += more.sum;
      dots.product += more.product;
    }
    if (out_.empty()) return;
    const auto count = static_cast<double>(n);
    const T level = centred_ ? static_cast<T>(dots.sum / count) : T(0),
            tilt = static_cast<T>(dots.product / count);
    if (last_) return last_.run(run, row * n, n, {g, x, scale, &mean, &inverse, &level, &tilt});
    T* const dx = static_cast<T*>(out_.target_row(run, row * n, room(run, lane, 2)));
    loops_.gradient_row(dx, g, x, scale, mean, inverse, level, tilt, n);
    out_.write_row(run, row * n, n, scratch, dx);
  }

  void join(const Run& run, uint64_t first, uint64_t end) const {
    // A lane's sums lie a multiple of some pages behind the one before's, in the same few lines of a cache: each is read for
    // many columns at once, not again for every column.
    constexpr uint64_t most = 128;
    T *const out_scale = at(run, places_.out_scale), *const out_bias = at(run, places_.out_bias);
    for (; first < end; first += most) {
      const uint64_t n = std::min(most, end - first);
      double scale[most] = {}, bias[most] = {};
      for (uint64_t lane = 0; lane < shape().lanes; ++lane) {
        const double* const of = sums(run, lane) + first;
        for (uint64_t i = 0; i < n; ++i) scale[i] += of[i];
        for (uint64_t i = 0; i < n; ++i) bias[i] += of[shape().length + i];
      }
      for (uint64_t i = 0; i < n && out_scale != nullptr; ++i)
        out_scale[first + i] = static_cast<T>(scale[i]);
      for (uint64_t i = 0; i < n && out_bias != nullptr; ++i) out_bias[first + i] = static_cast<T>(bias[i]);
    }
  }

  const NormLoops<T>& loops_ = norm_loops<T>();
  bool centred_;
  Chain in_, out_;
  Joined last_;
  Places places_;
};

template <class T>
Status build(Builder& builder, const KernelGroup& group) {
  const tn_node& node = group.node;
  const uint32_t dtype = sizeof(T) == 8 ? TN_DTYPE_f64 : TN_DTYPE_f32;
  const TensorView x = builder.fragment().tensor(node.inputs[1]);
  const bool centred = node.op == TN_OP_layer_norm_grad;
  const uint64_t length = row_length(x, node);
  const Rows shape = Rows::by_work(row_count(x, node), length);
  Arrangement arrangement(builder, order_with_last(x.rank(), x.rank() - 1));
  FusedNodes fused(builder, arrangement, group);
  Chain in = TN_TRY(fused.read({node.inputs, 2}));
  Chain out = TN_TRY(fused.write(node.outputs[0]));
  Places places;
  places.scale = TN_TRY(arrangement.parameter(node.inputs[2], dtype));
  if (centred) places.mean = TN_TRY(arrangement.parameter(node.inputs[3], dtype));
  places.inverse = TN_TRY(arrangement.parameter(node.inputs[centred ? 4 : 3], dtype));
  const auto statistic = [&](uint32_t i) {
    return i < node.output_count ? arrangement.statistic(node.outputs[i], dtype) : Place{};
  };
  places.out_scale = statistic(1);
  if (centred) places.out_bias = statistic(2);
  places.sums = builder.scratch(shape.lanes * 2 * length * sizeof(double));
  builder.add(
      std::make_unique<RowNormGrad<T>>(builder, shape, centred, std::move(in), std::move(out), places));
  return arrangement.finish();
}

}  // namespace

Status build_row_norm_grad(Builder& builder, const KernelGroup& group) {
  const bool wide = kernel_class(builder.fragment(), group.node) == Reg::f64;
  return wide ? build<double>(builder, group) : build<float>(builder, group);
}

}  // namespace tenon::cpu
