// SPDX-License-Identifier: Apache-2.0
// softmax.cpp: rows of numbers to shares, and back.
//
// Invariant: nothing overflows: exponents are at most 0.
#include "softmax.hpp"

#include "joined.hpp"
#include "rows.hpp"
#include "softmax_loops.hpp"

#include <cmath>

namespace tenon::cpu {
namespace {

template <class T>
class Softmax final : public RowStep {
 public:
  Softmax(Builder& builder, const Rows& shape, uint32_t op, Chain in, Chain out)
      : RowStep(builder, shape, 3, sizeof(T)), op_(op), in_(std::move(in)), out_(std::move(out)) {
    generate();
  }

  std::string engine() const override { return "softmax"; }

 private:
  // The last pass over a row, to where its results go. A row's numbers lie beside: terms and a factor, or what run_last says.
  void generate() {
    using N = Joined::Number;
    if (out_.empty()) return;
    if (op_ == TN_OP_softmax)
      last_ = Joined(Chain(), false, &out_, {Beside::each, Beside::one},
                     [](auto, auto with) { return with[0] * with[1]; });
    else if (op_ == TN_OP_log_softmax)
      last_ = Joined(Chain(), false, &out_, {Beside::each, Beside::one, Beside::one},
                     [](auto, auto with) -> N { return (with[0] - with[1]) - with[2]; });
    else
      last_ = Joined(
          Chain(), false, &out_, {Beside::row, Beside::row, Beside::one},
          [](auto, auto with) -> N { return with[1] * (with[0] - with[2]); }, shape().length * sizeof(T));
  }

  void run_lane(const Run& run, uint64_t lane, uint64_t first, uint64_t end) const override {
    Chain::Scratch scratch;
    void* const rows[] = {room(run, lane, 0), room(run, lane, 1)};
    for (uint64_t row = first; row < end && !out_.empty(); ++row) {
      const uint64_t from = row * shape().length;
      const Chain::Tiles read = in_.read_row(run, from, shape().length, scratch, rows);
      const auto *a = static_cast<const T*>(read.of(0)), *b = static_cast<const T*>(read.of(1));
      if (last_) {
        run_last(run, from, reinterpret_cast<T*>(room(run, lane, 2)), a, b);
        continue;
      }
      T* const y = static_cast<T*>(out_.target_row(run, from, room(run, lane, 2)));
      compute(y, a, b);
      out_.write_row(run, from, shape().length, scratch, y);
    }
  }

  void run_last(const Run& run, uint64_t from, T* terms, const T* a, const T* b) const {
    const uint64_t n = shape().length;
    if (op_ == TN_OP_softmax_grad) {
      ask_for_row(a + n, n * sizeof(T));
      const auto product = static_cast<T>(loops_.dot(a, b, n));
      return last_.run(run, from, n, {a, b, &product});
    }
    if (op_ == TN_OP_softmax) {
      ask_for_row(a + n, n * sizeof(T));
      const auto factor = static_cast<T>(1 / log_sum(loops_, terms, a, n).sum);
      return last_.run(run, from, n, {terms, &factor});
    }
    const LogSum sum = log_sum<T>(loops_, nullptr, a, n);
    const auto greatest = static_cast<T>(sum.greatest), log = static_cast<T>(std::log(sum.sum));
    last_.run(run, from, n, {a, &greatest, &log});
  }

  // Of the gradient: a is dy, b is y.
  void compute(T* out, const T* a, const T* b) const {
    const uint64_t n = shape().length;
    if (op_ == TN_OP_softmax_grad) return loops_.gradient(out, a, b, static_cast<T>(loops_.dot(a, b, n)), n);
    if (op_ == TN_OP_softmax) return loops_.scale(out, static_cast<T>(1 / log_sum(loops_, out, a, n).sum), n);
    const LogSum sum = log_sum<T>(loops_, nullptr, a, n);
    loops_.shift(out, a, static_cast<T>(sum.greatest), static_cast<T>(std::log(sum.sum)), n);
  }

  const SoftmaxLoops<T>& loops_ = softmax_loops<T>();
  uint32_t op_;
  Chain in_, out_;
  Joined last_;
};

template <class T>
Status build(Builder& builder, const KernelGroup& group, unsigned threads) {
  const tn_node& node = group.node;
  const TensorView x = builder.fragment().tensor(node.inputs[0]);
  const int64_t given = author::attribute_i64(node, "axis").value_or(-1);
  const auto axis = static_cast<uint32_t>(given < 0 ? given + x.rank() : given);
  const auto length = static_cast<uint64_t>(x.dims()[axis]);
  const Rows shape = Rows::by_threads(length == 0 ? 0 : x.elements() / length, length, threads);
  Arrangement arrangement(builder, order_with_last(x.rank(), axis));
  FusedNodes fused(builder, arrangement, group);
  Chain in = TN_TRY(fused.read({node.inputs, node.op == TN_OP_softmax_grad ? size_t{2} : size_t{1}}));
  Chain out = TN_TRY(fused.write(node.outputs[0]));
  builder.add(std::make_unique<Softmax<T>>(builder, shape, node.op, std::move(in), std::move(out)));
  return arrangement.finish();
}

}  // namespace

Status build_softmax(Builder& builder, uint32_t first, uint32_t end, unsigned threads) {
  const KernelGroup group = kernel_group(builder.fragment(), first, end);
  const bool wide = kernel_class(builder.fragment(), group.node) == Reg::f64;
  return wide ? build<double>(builder, group, threads) : build<float>(builder, group, threads);
}

}  // namespace tenon::cpu
