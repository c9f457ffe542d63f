// SPDX-License-Identifier: Apache-2.0
// infer.hpp: what comes out of a node: each rule of ops.def's dtype and shape columns, once.
//
// Invariant: what is inferred depends on op, input types and dims, attributes and the sizes of communicators alone.
#pragma once

#include "base/schema.hpp"
#include "graph/columns.hpp"
#include "graph/words.hpp"

#include <map>
#include <span>

namespace tenon::graph {

// A node to be. Attributes are complete and of the kinds the table says; an absent input is null.
struct Question {
  const base::OpSchema& schema;
  std::span<const TensorSpec* const> inputs;
  std::vector<Attribute>&
      attributes;  // infer writes negative axes of reductions as they count from the start
  const std::map<int64_t, int64_t>& ranks;

  Op op() const noexcept { return schema.op; }
  size_t count() const noexcept { return inputs.size(); }
  bool has(size_t i) const noexcept { return i < inputs.size() && inputs[i] != nullptr; }
  DType dtype(size_t i) const noexcept { return inputs[i]->dtype; }
  const Dims& dims(size_t i) const noexcept { return inputs[i]->dims; }
  size_t rank(size_t i) const noexcept { return inputs[i]->dims.size(); }
  int64_t integer(std::string_view name) const { return std::get<int64_t>(*find(name)); }
  const Dims& integers(std::string_view name) const { return std::get<Dims>(*find(name)); }
  DType type(std::string_view name) const { return std::get<DType>(*find(name)); }
  AttributeValue* find(std::string_view name) const noexcept;
  size_t outputs() const noexcept { return schema.many_outputs ? count() : schema.outputs; }
};

// The outputs of a node; dtype DType{} for one that is left out. TN_INVALID with the rule that is broken.
// [any-thread; does not block; may fail]
Result<std::vector<TensorSpec>> infer(const Question& question);

// ranges.cpp: whether the attributes are within ranges.def.
Status check_ranges(const Question& question);
// dtypes.cpp: the types of the outputs; DType{}: left out.
Result<std::vector<DType>> infer_dtypes(const Question& question);
// shapes.cpp: the dims of the outputs.
Result<std::vector<Dims>> infer_shapes(const Question& question);

// What the rules share.
Status bad(std::string text);
// "input 1 is [2], it must be [3]"
Status expect(const Question& q, size_t input, const Dims& dims);
Status expect_rank(const Question& q, size_t input, size_t rank);
Result<size_t> axis_of(int64_t given, size_t rank);
// By numpy's rules: "[2,3] and [4] do not broadcast: dim 1 is 3 and 4".
Result<Dims> broadcast(const Dims& a, const Dims& b);
// a + b, a · b without wrapping: saturates, which no tensor may have as a dim.
int64_t plus(int64_t a, int64_t b) noexcept;
int64_t times(int64_t a, int64_t b) noexcept;

// shapes_network.cpp
using Shapes = Result<std::vector<Dims>>;
Shapes conv_shapes(const Question& q);
Shapes pool_shapes(const Question& q);
Shapes channel_shapes(const Question& q);
Shapes row_shapes(const Question& q);
Shapes loss_shapes(const Question& q);
Shapes attention_shapes(const Question& q);
Shapes lookup_shapes(const Question& q);
Shapes update_shapes(const Question& q);
Shapes rank_shapes(const Question& q);

}  // namespace tenon::graph
