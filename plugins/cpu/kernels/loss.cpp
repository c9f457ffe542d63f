// SPDX-License-Identifier: Apache-2.0
// loss.cpp: a row of scores to its loss, and a loss to the row's gradient.
//
// Invariant: log Σe^x is computed about the row's greatest score, so nothing overflows.
#include "loss.hpp"

#include "rows.hpp"
#include "softmax_loops.hpp"

#include <cmath>

namespace tenon::cpu {
namespace {

struct Places {
  Place labels;         // as i64
  Place loss, log_sum;  // outputs forward; backward `loss` is dloss, and both are inputs
};

template <class T>
class CrossEntropy final : public RowStep {
 public:
  CrossEntropy(Builder& builder, const Rows& shape, const tn_node& node, Chain in, Chain out,
               const Places& places)
      : RowStep(builder, shape, 2, sizeof(T)),
        backward_(node.op == TN_OP_cross_entropy_grad),
        ignored_(author::attribute_i64(node, "ignore_index").value_or(-100)),
        in_(std::move(in)),
        out_(std::move(out)),
        places_(places) {}

  std::string engine() const override { return "loss"; }

 private:
  T* at(const Run& run, const Place& place) const { return reinterpret_cast<T*>(run.at(place)); }

  void run_lane(const Run& run, uint64_t lane, uint64_t first, uint64_t end) const override {
    Chain::Scratch scratch;
    void* const rows[] = {room(run, lane, 0), nullptr};
    const auto* labels = reinterpret_cast<const int64_t*>(run.at(places_.labels));
    for (uint64_t row = first; row < end; ++row) {
      const uint64_t from = row * shape().length;
      const auto* x = static_cast<const T*>(in_.read_row(run, from, shape().length, scratch, rows).of(0));
      const int64_t label = labels[row];
      const bool counts = label != ignored_ && label >= 0 && label < static_cast<int64_t>(shape().length);
      if (!backward_) {
        lose(run, row, x, label, counts);
      } else if (!out_.empty()) {
        T* const dx = static_cast<T*>(out_.target_row(run, from, room(run, lane, 1)));
        differentiate(run, row, dx, x, label, counts);
        out_.write_row(run, from, shape().length, scratch, dx);
      }
    }
  }

  void lose(const Run& run, uint64_t row, const T* x, int64_t label, bool counts) const {
    const LogSum sum = log_sum<T>(loops_, nullptr, x, shape().length);
    const double log = std::log(sum.sum);
    if (T* const to = at(run, places_.log_sum); to != nullptr) to[row] = static_cast<T>(sum.greatest + log);
    if (T* const to = at(run, places_.loss); to != nullptr)
      to[row] = counts ? static_cast<T>(sum.greatest - static_cast<double>(x[label]) + log) : T(0);
  }

  void differentiate(const Run& run, uint64_t row, T* dx, const T* x, int64_t label, bool counts) const {
    if (!counts) {
      std::fill_n(dx, shape().length, T(0));
      return;
    }
    const T dloss = at(run, places_.loss)[row], log = at(run, places_.log_sum)[row];
    loops_.shares(dx, x, log, dloss, shape().length);
    dx[label] -= dloss;
  }

  const SoftmaxLoops<T>& loops_ = softmax_loops<T>();
  bool backward_;
  int64_t ignored_;
  Chain in_, out_;
  Places places_;
};

template <class T>
Status build(Builder& builder, const KernelGroup& group, unsigned threads) {
  const tn_node& node = group.node;
  const uint32_t dtype = sizeof(T) == 8 ? TN_DTYPE_f64 : TN_DTYPE_f32;
  const TensorView x = builder.fragment().tensor(node.inputs[0]);
  const bool backward = node.op == TN_OP_cross_entropy_grad;
  const Rows shape =
      Rows::by_threads(static_cast<uint64_t>(x.dims()[0]), static_cast<uint64_t>(x.dims()[1]), threads);
  Arrangement arrangement(builder, order_with_last(x.rank(), x.rank() - 1));
  FusedNodes fused(builder, arrangement, group);
  Chain in = TN_TRY(fused.read({node.inputs, 1}));
  Chain out = backward ? TN_TRY(fused.write(node.outputs[0])) : Chain(class_of(dtype));
  Places places;
  places.labels = TN_TRY(arrangement.parameter(node.inputs[1], TN_DTYPE_i64));
  if (backward) {
    places.log_sum = TN_TRY(arrangement.parameter(node.inputs[2], dtype));
    places.loss = TN_TRY(arrangement.parameter(node.inputs[3], dtype));
  } else {
    places.loss = arrangement.statistic(node.outputs[0], dtype);
    if (node.output_count > 1) places.log_sum = arrangement.statistic(node.outputs[1], dtype);
  }
  builder.add(std::make_unique<CrossEntropy<T>>(builder, shape, node, std::move(in), std::move(out), places));
  return arrangement.finish();
}

}  // namespace

Status build_loss(Builder& builder, uint32_t first, uint32_t end, unsigned threads) {
  const KernelGroup group = kernel_group(builder.fragment(), first, end);
  const bool wide = kernel_class(builder.fragment(), group.node) == Reg::f64;
  return wide ? build<double>(builder, group, threads) : build<float>(builder, group, threads);
}

}  // namespace tenon::cpu
