// SPDX-License-Identifier: Apache-2.0
// The random graphs themselves: a generator that made nothing but trivial or broken graphs would prove nothing.
#include "support/random_graph.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace tenon;
using namespace tenon::test;

TEST_CASE("random graphs: equal seeds give equal graphs, others give others") {
  std::set<std::string> texts;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(random_graph(seed).graph.text() == random_graph(seed).graph.text());
    texts.insert(random_graph(seed).graph.text());
  }
  CHECK(texts.size() == 20);
}

TEST_CASE("random graphs: every number in them is finite") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomGraph made = random_graph(seed);
    for (const auto& entry : run(made.graph, bound(made.graph, made.leaves))) {
      const std::string& called = made.graph.values()[entry.first].name;
      INFO("seed " << seed << ", value " << called << " of\n" << made.graph.text());
      for (const conform::Scalar& one : entry.second.at) REQUIRE(std::isfinite(one.real));
    }
  }
}

TEST_CASE("random graphs: among a few hundred there is every kind of node that passes care about") {
  std::set<Op> seen;
  size_t outputs = 0, dead_ends = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = random_graph(seed).graph;
    for (const Graph::Node& node : graph.nodes()) seen.insert(node.op);
    outputs += graph.outputs().size() > 1 ? 1 : 0;
    for (const Graph::ValueInfo& info : graph.values())
      dead_ends += info.role == Graph::Role::computed && info.users.empty() ? 1 : 0;
  }
  for (const Op op : {Op::add,
                      Op::where,
                      Op::cast,
                      Op::sum,
                      Op::matmul,
                      Op::conv2d,
                      Op::conv2d_grad_data,
                      Op::conv2d_grad_weight,
                      Op::max_pool,
                      Op::batch_norm_train,
                      Op::batch_norm_grad,
                      Op::layer_norm,
                      Op::softmax,
                      Op::cross_entropy,
                      Op::embedding,
                      Op::dropout,
                      Op::concat,
                      Op::slice,
                      Op::pad,
                      Op::constant,
                      Op::sgd,
                      Op::momentum,
                      Op::adam,
                      Op::check_finite_and_unscale,
                      Op::update_loss_scaling}) {
    INFO(name(op));
    CHECK(seen.contains(op));
  }
  CHECK(outputs > 100);
  CHECK(dead_ends > 100);
}
