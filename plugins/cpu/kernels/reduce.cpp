// SPDX-License-Identifier: Apache-2.0
// reduce.cpp: sums, means, products, extremes and argmax over any axes of any strides.
//
// Two orders of walking: along the reduced elements of one output (rows), or along many outputs at once (columns), whichever
// follows memory. Long reductions with few outputs are cut into pieces that are folded in order.
// Invariant: the cuts depend on the shape alone, so the same input gives the same bits on any number of threads.
#include "reduce.hpp"
#include "reduce_ops.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu {
namespace {

constexpr uint32_t tile = 512;
constexpr uint64_t most_pieces = 64;
// Fewer outputs than this cannot keep the threads busy by themselves.
constexpr uint64_t few_outputs = 64;

struct Shape {
  View input;        // rows: kept dims, then reduced ones; columns: the other way round
  uint64_t outputs;  // elements that are kept
  uint64_t length;   // elements behind each of them
  bool columns;
  uint64_t pieces;  // of the length
};

class ReduceStep final : public Step {
 public:
  ReduceStep(const Shape& shape, const ReduceOps& ops, const Place& from, const Place& to,
             const View& to_view, const Place& partial)
      : shape_(shape),
        ops_(ops),
        from_(from),
        to_(to),
        to_view_(to_view),
        partial_(partial),
        load_(load_op(shape.input.dtype())),
        store_(store_op(to_view.dtype())) {}

  std::string engine() const override { return "reduce"; }

  Status run(const Run& run) const override {
    if (shape_.outputs == 0) return {};
    const uint64_t blocks = (shape_.outputs + block() - 1) / block();
    const uint64_t work = std::max<uint64_t>(1, block() * (shape_.length / shape_.pieces));
    run.team.run(blocks * shape_.pieces, std::max<uint64_t>(1, parallel_grain / work),
                 [&](uint64_t job, uint64_t end) {
                   for (; job < end; ++job)
                     fold_block(run, job / shape_.pieces * block(), job % shape_.pieces);
                 });
    if (shape_.pieces > 1) {
      run.team.run(blocks, few_outputs, [&](uint64_t first, uint64_t end) {
        for (; first < end; ++first) merge_block(run, first * block());
      });
    }
    return {};
  }

 private:
  // Outputs that one job folds at once; a column's accumulators fill a part of L1.
  uint64_t block() const noexcept { return shape_.columns ? tile : 1; }

  void fold_block(const Run& run, uint64_t output, uint64_t piece) const {
    alignas(64) Accumulator sums[tile];
    const auto n = static_cast<uint32_t>(std::min(block(), shape_.outputs - output));
    ops_.start(sums, n);
    const uint64_t begin = shape_.length * piece / shape_.pieces,
                   end = shape_.length * (piece + 1) / shape_.pieces;
    if (shape_.columns) {
      fold_columns(run, sums, output, n, begin, end);
    } else {
      fold_row(run, sums, output, begin, end);
    }
    if (shape_.pieces == 1) return finish(run, sums, output, n);
    auto* kept = reinterpret_cast<Accumulator*>(run.at(partial_));
    std::copy_n(sums, n, kept + piece * shape_.outputs + output);
  }

  void fold_row(const Run& run, Accumulator* sum, uint64_t output, uint64_t begin, uint64_t end) const {
    alignas(64) std::byte values[tile * 8];
    for (uint64_t at = begin; at < end; at += tile) {
      const auto n = static_cast<uint32_t>(std::min<uint64_t>(tile, end - at));
      ops_.fold_row(sum, read(run, output * shape_.length + at, n, values), n, at);
    }
  }

  void fold_columns(const Run& run, Accumulator* sums, uint64_t output, uint32_t n, uint64_t begin,
                    uint64_t end) const {
    alignas(64) std::byte values[tile * 8];
    for (uint64_t at = begin; at < end; ++at) {
      ops_.fold_columns(sums, read(run, at * shape_.outputs + output, n, values), n, at);
    }
  }

  // A tile of the input: in place when memory has its form, else through `values`.
  const void* read(const Run& run, uint64_t begin, uint32_t n, std::byte* values) const {
    const View& view = shape_.input;
    if (view.contiguous() && is_native(view.dtype())) return run.at(from_) + begin * view.element_bytes();
    load_(view, run.at(from_), begin, n, values);
    return values;
  }

  void merge_block(const Run& run, uint64_t output) const {
    alignas(64) Accumulator sums[tile];
    const auto n = static_cast<uint32_t>(std::min(block(), shape_.outputs - output));
    const auto* kept = reinterpret_cast<const Accumulator*>(run.at(partial_)) + output;
    std::copy_n(kept, n, sums);
    for (uint64_t piece = 1; piece < shape_.pieces; ++piece)
      ops_.merge(sums, kept + piece * shape_.outputs, n);
    finish(run, sums, output, n);
  }

  void finish(const Run& run, const Accumulator* sums, uint64_t output, uint32_t n) const {
    alignas(64) std::byte values[tile * 8];
    ops_.finish(sums, n, shape_.length, values);
    store_(to_view_, run.at(to_), output, n, values);
  }

  Shape shape_;
  ReduceOps ops_;
  Place from_, to_;
  View to_view_;
  Place partial_;
  LoadFn load_;
  StoreFn store_;
};

View in_order(TensorView tensor, const Axes& axes, bool reduced_first) {
  std::array<uint32_t, TN_MAX_RANK> order{};
  const auto kept_end = std::copy_n(axes.kept.begin(), axes.kept_count,
                                    order.begin() + (reduced_first ? axes.reduced_count : 0));
  std::copy_n(axes.reduced.begin(), axes.reduced_count, reduced_first ? order.begin() : kept_end);
  return View::permuted(tensor, {order.data(), tensor.rank()});
}

// Whether neighbours in memory are neighbouring outputs: then several of them are folded together.
bool columns_pay(TensorView tensor, const Axes& axes) {
  if (axes.kept_count == 0 || axes.reduced_count == 0) return false;
  const auto strides = tensor.strides();
  const uint32_t kept = axes.kept[axes.kept_count - 1], reduced = axes.reduced[axes.reduced_count - 1];
  return tensor.dims()[kept] >= 8 && strides[kept] < strides[reduced];
}

Shape shape_of(TensorView tensor, const Axes& axes) {
  Shape shape{.outputs = 1, .length = 1};
  for (uint32_t i = 0; i < axes.kept_count; ++i)
    shape.outputs *= static_cast<uint64_t>(tensor.dims()[axes.kept[i]]);
  for (uint32_t i = 0; i < axes.reduced_count; ++i)
    shape.length *= static_cast<uint64_t>(tensor.dims()[axes.reduced[i]]);
  shape.columns = columns_pay(tensor, axes);
  shape.input = in_order(tensor, axes, shape.columns);
  const uint64_t jobs = shape.columns ? (shape.outputs + tile - 1) / tile : shape.outputs;
  const uint64_t work = shape.length * (shape.columns ? std::min<uint64_t>(shape.outputs, tile) : 1);
  shape.pieces = jobs >= few_outputs ? 1 : std::clamp<uint64_t>(work / parallel_grain, 1, most_pieces);
  return shape;
}

}  // namespace

Status build_fold(Builder& builder, const tn_node& node, uint32_t op, const Axes& axes) {
  const TensorView from = builder.fragment().tensor(node.inputs[0]),
                   to = builder.fragment().tensor(node.outputs[0]);
  const Shape shape = shape_of(from, axes);
  const ReduceOps ops = reduce_ops(op, from.dtype());
  Place partial{};
  if (shape.pieces > 1) partial = builder.scratch(shape.pieces * shape.outputs * sizeof(Accumulator));
  const Place source = builder.place(node.inputs[0]);
  const Place result = builder.output_place(node.outputs[0]);
  builder.add(std::make_unique<ReduceStep>(shape, ops, source, result, View(to), partial));
  return {};
}

Status build_reduction(Builder& builder, const tn_node& node, unsigned) {
  return build_fold(builder, node, node.op, axes_of(node, builder.fragment().tensor(node.inputs[0]).rank()));
}

}  // namespace tenon::cpu
