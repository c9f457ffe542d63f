// SPDX-License-Identifier: Apache-2.0
// blocks.hpp: a graph of as many nodes as wanted, alike all over, for what must grow no faster than a graph does.
#pragma once

#include <tenon/graph.hpp>

namespace tenon::test {

// Residual blocks: product, bias, activation, normalisation, and the way around.
inline Graph blocks(size_t nodes) {
  Graph g("blocks");
  auto x = g.input("x", {f32, {64, 64}});
  const auto w = g.param("w", {f32, {64, 64}}), b = g.param("b", {f32, {64}});
  while (g.nodes().size() < nodes) {
    const auto h = g.gelu(g.add(g.matmul(x, w), b));
    const auto centred = g.sub(h, g.mean(h, {1}, true));
    x = g.add(x, g.mul(centred, g.rsqrt(g.mean(g.square(centred), {1}, true))));
  }
  g.output("out", x);
  return g;
}

}  // namespace tenon::test
