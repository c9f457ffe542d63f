// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over all ranks: what becomes of its nodes.
#include "passes/sync_batch_norm.hpp"

#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int64_t sums = 1, ranks = 4;

struct Normalised {
  bool statistics = true;  // the running ones are outputs
  bool to_input = true;    // the gradient goes on to x
  DType dtype = f32;
};

// y = bn(x · w), its loss and gradients.
Graph normalised(const Normalised& what = {}) {
  Graph g;
  const TensorSpec channel{f32, {3}};
  const auto x = g.input("x", {what.dtype, {2, 3, 4, 5}});
  const auto into = what.to_input ? g.named("h").mul(x, g.param("w", {what.dtype, {1, 3, 1, 1}})) : x;
  const auto scale = g.param("bn.scale", channel), bias = g.param("bn.bias", channel);
  const auto [y, mean, inv_std, new_mean, new_var] =
      g.named({"bn", "bn.mean", "bn.inv_std", "bn.new_mean", "bn.new_var"})
          .batch_norm_train(into, scale, bias, g.param("bn.running_mean", channel),
                            g.param("bn.running_var", channel), {{"momentum", 0.75}});
  const auto loss = g.named("loss").mean(g.cast(g.square(y), f32), {0, 1, 2, 3});
  std::vector<GraphValue> wanted{scale, bias};
  if (what.to_input) wanted.push_back(g.value(index_of(g, "w")));
  const auto gradients = g.gradients(loss, wanted);
  REQUIRE_MESSAGE(gradients.ok(), gradients.message());
  g.output("loss", loss);
  for (size_t i = 0; i < gradients->size(); ++i) g.output("gradient" + std::to_string(i), (*gradients)[i]);
  if (!what.statistics) return g;
  g.output("new_mean", new_mean);
  g.output("new_var", new_var);
  return g;
}

}  // namespace

TEST_CASE("sync_batch_norm: statistics and their gradients are summed in one message each") {
  const passes::Rewritten work = done(passes::sync_batch_norm(normalised(), sums, ranks));
  const Graph& g = work.graph;
  CHECK(count(g, Op::batch_norm_train) + count(g, Op::batch_norm_grad) == 0);
  CHECK(count(g, Op::batch_norm_stats) == 1);
  CHECK(count(g, Op::batch_norm_apply) == 1);
  CHECK(count(g, Op::batch_norm_grad_stats) == 1);
  CHECK(count(g, Op::batch_norm_grad_apply) == 1);
  CHECK(count(g, Op::all_reduce) == 2);
  CHECK(g.communicators().at(sums) == ranks);
  CHECK(spec(g, "bn.sums.all").dims == std::vector<int64_t>{6});
  CHECK(reads(g, "bn", 3) == "bn.mean");
  CHECK(reads(g, "bn", 4) == "bn.inv_std");
  CHECK(told(work, "bn") == "+ sync_batch_norm: bn: normalised over all ranks: sync_batch_norm\n");
}

TEST_CASE("sync_batch_norm: what was an output is one, of the same type and shape") {
  for (const DType dtype : {f32, bf16}) {
    const Graph before = normalised({.dtype = dtype});
    const Graph after = done(passes::sync_batch_norm(before, sums, ranks)).graph;
    REQUIRE(after.outputs().size() == before.outputs().size());
    for (size_t i = 0; i < before.outputs().size(); ++i) {
      CHECK(after.outputs()[i].name == before.outputs()[i].name);
      const TensorSpec &was = before.values()[before.outputs()[i].value].spec,
                       &is = after.values()[after.outputs()[i].value].spec;
      CHECK(is.dtype == was.dtype);
      CHECK(is.dims == was.dims);
    }
  }
}

TEST_CASE("sync_batch_norm: a gradient that goes no further needs no sum") {
  const Graph g = done(passes::sync_batch_norm(normalised({.to_input = false}), sums, ranks)).graph;
  CHECK(count(g, Op::batch_norm_grad_stats) == 1);
  CHECK(count(g, Op::batch_norm_grad_apply) == 0);
  CHECK(count(g, Op::all_reduce) == 1);
}

TEST_CASE("sync_batch_norm: a graph without batch normalisation stays as it is, and that is told") {
  Graph g;
  g.output("y", g.named("y").relu(g.input("x", {f32, {4}})));
  const passes::Rewritten work = done(passes::sync_batch_norm(g, sums, ranks));
  CHECK(work.graph.nodes().size() == 1);
  CHECK(passes::explain(work.notes) ==
        "- sync_batch_norm: normalisation over all ranks: there is no batch_norm_train\n");
}

TEST_CASE("sync_batch_norm: twice is as once") {
  const Graph once = done(passes::sync_batch_norm(normalised(), sums, ranks)).graph;
  CHECK(done(passes::sync_batch_norm(once, sums, ranks)).graph.text() == once.text());
}
