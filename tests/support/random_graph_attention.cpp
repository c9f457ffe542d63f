// SPDX-License-Identifier: Apache-2.0
// random_graph_attention.cpp: see random_graph_attention.hpp.
#include "support/random_graph_attention.hpp"

#include <limits>

namespace tenon::test {

GraphValue AttentionSteps::spelled_out() {
  const int64_t queries = between(1, 4), keys = between(1, 5), depth = between(1, 3), heads = between(1, 2);
  const auto shaped = [&, rank_3 = chance(2)](int64_t rows, int64_t columns) {
    return rank_3 ? Ints{heads, rows, columns} : Ints{2, heads, rows, columns};
  };
  const bool turned = chance(3);
  const Value q = weight(shaped(queries, depth)), v = weight(shaped(keys, depth));
  const Value k = weight(turned ? shaped(depth, keys) : shaped(keys, depth));
  const Value scores = hidden(
      scaled(g.matmul(chance(2) ? q : g.tanh(q), k, {{"transpose_b", int64_t{!turned}}})), queries, keys);
  Value shares = g.softmax(chance(8) ? g.tanh(scores) : scores);
  if (chance(8)) put(shares);
  if (chance(8)) shares = g.dropout(shares, seed(), seed(), {{"rate", 0.5}});
  return keep(g.matmul(shares, v), 3);
}

GraphValue AttentionSteps::scaled(Value scores) {
  switch (between(0, 3)) {
    case 0:
      return g.scale(scores, 0.5);
    case 1:
      return g.mul(scores, g.constant({f32, {}}, 0.25));
    case 2:
      return g.div(scores, g.constant({f32, {}}, 2));
    default:
      return scores;
  }
}

GraphValue AttentionSteps::hidden(Value scores, int64_t queries, int64_t keys) {
  const Ints shape = chance(2) ? Ints{queries, keys} : chance(2) ? Ints{keys} : dims(scores);
  if (chance(2))
    return chance(2) ? scores : g.add(scores, chance(3) ? weight(shape) : real(shape, Graph::Role::input));
  const TensorSpec spec{boolean, shape};
  std::vector<double> seen(spec.elements());
  for (size_t i = 0; i < seen.size(); ++i) seen[i] = i % static_cast<size_t>(keys) == 0 || chance(2) ? 1 : 0;
  const Value shown = leaf(spec, seen, Graph::Role::input),
              instead = g.constant({f32, {}}, chance(2) ? -0x1p30 : -std::numeric_limits<double>::infinity());
  return chance(2) ? g.where(shown, scores, instead) : g.where(g.logical_not(shown), instead, scores);
}

}  // namespace tenon::test
