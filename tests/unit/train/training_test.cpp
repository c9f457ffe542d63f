// SPDX-License-Identifier: Apache-2.0
// A step has the model's outputs, one renewing output for all that lasts, and nothing that was not asked for; what cannot be is
// refused by name.
#include <tenon/training.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

using namespace tenon;

namespace {

Graph model(DType dtype = f32) {
  Graph g("model");
  const auto x = g.input("x", {dtype, {4, 3}});
  const auto w = g.param("fc.w", {dtype, {3, 2}}), b = g.param("fc.b", {dtype, {2}}),
             unused = g.param("unused", {dtype, {2}});
  g.output("other", g.neg(unused));
  const auto y = g.named("fc").add(g.matmul(x, w), b);
  g.output("y", y);
  g.output("loss", g.mean(g.square(y), {0, 1}));
  return g;
}

TrainingGraph made(const Graph& graph, const TrainingOptions& options = {}) {
  Result<TrainingGraph> out = training_graph(graph, "loss", options);
  REQUIRE_MESSAGE(out.ok(), out.message());
  return std::move(out).take();
}

size_t count(const Graph& graph, Op op) {
  return static_cast<size_t>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                           [&](const auto& node) { return node.op == op; }));
}

void refused(const TrainingOptions& options, const std::string& part, std::string_view loss = "loss") {
  const auto out = training_graph(model(), loss, options);
  CHECK(out.code() == TN_INVALID);
  CHECK_MESSAGE(std::string(out.message()).find(part) != std::string::npos, out.message());
}

}  // namespace

TEST_CASE("training: trained is what the loss depends on, and all that lasts is renewed by one output") {
  for (const Op op : {Op::sgd, Op::momentum, Op::adam, Op::adamw}) {
    const TrainingGraph step = made(model(), {.optimizer = {.op = op}, .scaling = LossScaling{}});
    CHECK(step.trained == std::vector<std::string>{"fc.w", "fc.b"});
    std::set<std::string> params, outputs, renewed;
    for (const auto& value : step.graph.values()) {
      if (value.role == Graph::Role::param) params.insert(value.name);
    }
    for (const auto& output : step.graph.outputs()) outputs.insert(output.name);
    for (const Renewed& pair : step.renewed) {
      CHECK(params.contains(pair.param));
      CHECK(outputs.contains(pair.output));
      CHECK(renewed.insert(pair.param).second);
    }
    params.erase("training.rate");
    params.erase("unused");
    CHECK(renewed == params);
    for (const char* own : {"other", "y", "loss"}) CHECK(outputs.contains(own));
    CHECK(count(step.graph, op) == 2);
    CHECK(step.loss == "loss");
    CHECK(step.graph.check().ok());
  }
}

TEST_CASE("training: nothing that was not asked for") {
  const TrainingGraph plain = made(model());
  CHECK(count(plain.graph, Op::check_finite_and_unscale) == 0);
  CHECK(count(plain.graph, Op::all_reduce) == 0);
  CHECK(plain.scale.empty());
  CHECK(plain.found_inf.empty());
  CHECK(plain.divisor.empty());
  CHECK_FALSE(plain.clips);
  const TrainingGraph all = made(model(), {.scaling = LossScaling{}, .clip_norm = 1, .ranks = 4});
  CHECK(count(all.graph, Op::check_finite_and_unscale) == 1);
  CHECK(count(all.graph, Op::update_loss_scaling) == 1);
  CHECK(count(all.graph, Op::all_reduce) == 2);
  CHECK(all.graph.communicators().at(0) == 4);
  CHECK(all.clips);
  CHECK(count(made(model(), {.scaling = LossScaling{.dynamic = false}}).graph, Op::update_loss_scaling) == 0);
  const TrainingGraph clipped = made(model(), {.clip_norm = 1});
  CHECK(count(clipped.graph, Op::check_finite_and_unscale) == 1);
  CHECK(count(clipped.graph, Op::update_loss_scaling) == 0);
  CHECK(clipped.scale.empty());
  CHECK(clipped.scale_used.empty());
  CHECK(clipped.found_inf == "training.found_inf.now");
  CHECK(clipped.skipped == "training.skipped");
}

TEST_CASE("training: a shorter batch weighs less, and on one rank as much") {
  const auto constants = [](const TrainingGraph& step) {
    std::vector<double> out;
    for (const Graph::Node& node : step.graph.nodes())
      for (const Attribute& a : node.attributes)
        if (node.op == Op::constant && a.name == "value") out.push_back(std::get<double>(a.value));
    std::sort(out.begin(), out.end());
    return out;
  };
  const auto has = [&](const TrainingGraph& step, double value) {
    const std::vector<double> all = constants(step);
    return std::binary_search(all.begin(), all.end(), value);
  };
  const TrainingGraph brief = made(model(), {.ranks = 4, .samples = 5, .full_batch = 8});
  CHECK(brief.samples == 5);
  CHECK(brief.full_batch == 8);
  CHECK(has(brief, 5.0 / 8));
  CHECK(has(brief, 8));
  const TrainingGraph scaled =
      made(model(), {.scaling = LossScaling{}, .ranks = 4, .samples = 5, .full_batch = 8});
  CHECK(has(scaled, 5.0 / 8));
  const TrainingGraph full = made(model(), {.ranks = 4, .samples = 8});
  CHECK(full.full_batch == 8);
  CHECK(has(full, 8));
  const TrainingGraph alone = made(model(), {.samples = 5, .full_batch = 8});
  CHECK(constants(alone) == constants(made(model())));
}

TEST_CASE("training: sums are divided by what ranks tell, or by their number, which nobody has to tell") {
  const TrainingGraph told = made(model(), {.ranks = 4});
  CHECK(told.ranks == 4);
  CHECK(told.divisor == "training.divisor");
  CHECK(count(told.graph, Op::reciprocal) == 1);
  // The number that the first `op` has as this input.
  const auto number_of = [](const TrainingGraph& step, Op op, size_t input) {
    const auto nodes = step.graph.nodes();
    const auto found =
        std::find_if(nodes.begin(), nodes.end(), [&](const Graph::Node& node) { return node.op == op; });
    const Graph::Node& source = nodes[step.graph.values()[found->inputs[input]].producer];
    REQUIRE(source.op == Op::constant);
    const auto value = std::find_if(source.attributes.begin(), source.attributes.end(),
                                    [](const Attribute& a) { return a.name == "value"; });
    return std::get<double>(value->value);
  };
  const TrainingGraph known = made(model(), {.ranks = 4, .uneven_batches = false});
  CHECK(known.ranks == 4);
  CHECK(known.divisor.empty());
  CHECK(count(known.graph, Op::reciprocal) == 0);
  CHECK(count(known.graph, Op::all_reduce) == 2);
  CHECK(number_of(known, Op::sgd, 5) == 0.25);
  const TrainingGraph clipped = made(model(), {.clip_norm = 1, .ranks = 3, .uneven_batches = false});
  CHECK(number_of(clipped, Op::check_finite_and_unscale, 0) == 3);
  CHECK(made(model(), {.uneven_batches = false}).ranks == 1);
}

TEST_CASE("training: names say what is not trained and what does not decay") {
  const TrainingGraph step =
      made(model(), {.optimizer = {.attributes = {{"weight_decay", 0.5}}, .no_decay = {"*.b"}}});
  for (const auto& node : step.graph.nodes()) {
    if (node.op != Op::sgd) continue;
    const bool is_bias = step.graph.values()[node.inputs[0]].name == "fc.b";
    const auto decay = std::find_if(node.attributes.begin(), node.attributes.end(),
                                    [](const Attribute& a) { return a.name == "weight_decay"; });
    CHECK(std::get<double>(decay->value) == (is_bias ? 0.0 : 0.5));
  }
  CHECK(made(model(), {.stop_gradient = {"fc.w"}}).trained == std::vector<std::string>{"fc.b"});
}

TEST_CASE("training: halves of the model have f32 masters and states") {
  const TrainingGraph step = made(model(bf16), {.optimizer = {.op = Op::adam}});
  REQUIRE(step.masters.size() == 2);
  CHECK(step.masters[0].master == "fc.w.master");
  for (const auto& value : step.graph.values()) {
    if (value.role == Graph::Role::param && value.name.ends_with(".m")) CHECK(value.spec.dtype == f32);
  }
}

TEST_CASE("training: what cannot be is refused with its name, its value and the remedy") {
  refused({}, "no output 'los' (did you mean 'loss'?)", "los");
  refused({}, "output 'y' has 8 elements of f32: a loss is one float", "y");
  refused({.optimizer = {.op = Op::add}}, "optimizer.op = add: give sgd");
  refused({.optimizer = {.rate = -1}}, "optimizer.rate = -1");
  refused({.optimizer = {.rate = std::nan("")}}, "optimizer.rate = nan");
  refused({.optimizer = {.attributes = {{"momentun", 0.9}}}}, "momentun");
  refused({.optimizer = {.op = Op::adam, .attributes = {{"beta1", 1}}}}, "adam 'fc.w.update'", "loss");
  refused({.optimizer = {.op = Op::adam, .attributes = {{"beta1", 1}}}},
          "attribute 'beta1' is 1, it must be 0 or more, and less than 1 in f32");
  refused({.optimizer = {.op = Op::momentum, .attributes = {{"momentum", -0.1}}}},
          "attribute 'momentum' is -0.1, it must be 0 to 1");
  refused({.optimizer = {.attributes = {{"weight_decay", -1}}}},
          "attribute 'weight_decay' is -1, it must be 0 or more");
  refused({.clip_norm = -2}, "clip_norm = -2");
  refused({.samples = 0}, "samples = 0");
  refused({.samples = 9, .full_batch = 8},
          "samples = 9 of full_batch = 8: a batch has as many as a full one at most");
  refused({.ranks = 0}, "ranks = 0");
  refused({.scaling = LossScaling{.init = 0.5}}, "scaling.init = 0.5");
  refused({.scaling = LossScaling{.incr_every_n_steps = 0}}, "count from 1");
  refused({.scaling = LossScaling{.incr_ratio = 0.5}}, "scaling.incr_ratio = 0.5");
  refused({.scaling = LossScaling{.decr_ratio = 0}}, "scaling.decr_ratio = 0");
  refused({.stop_gradient = {"*"}}, "no parameter of the model is trained");
  refused({.stop_gradient = {"fc.v"}}, "stop_gradient: 'fc.v' names no parameter (did you mean 'fc.w'?)");
  refused({.optimizer = {.no_decay = {"*.bias"}}}, "no_decay: '*.bias' names no parameter");
  refused({.renewed = {{"x", "y"}}}, "'x' is no parameter");
  refused({.renewed = {{"unused", "yy"}}}, "the model has no output 'yy'");
  refused({.renewed = {{"unused", "y"}}}, "has another type or shape than 'unused'");
  refused({.renewed = {{"unused", "other"}, {"unused", "other"}}}, "is named twice");
}

TEST_CASE("training: a name of the model that a step needs is told") {
  Graph g = model();
  g.param("fc.w.velocity", {f32, {1}});
  const auto out = training_graph(g, "loss", {.optimizer = {.op = Op::momentum}});
  CHECK(out.code() == TN_INVALID);
  CHECK(std::string(out.message()).find("fc.w.velocity") != std::string::npos);
}

TEST_CASE("training_graph: with sync_batch_norm parameters begin as they would without") {
  Graph g("normalised");
  const TensorSpec channel{f32, {4}};
  const auto h = g.conv2d(g.input("x", {f32, {2, 3, 5, 5}}), g.param("conv.w", {f32, {4, 3, 3, 3}}));
  const auto y = g.batch_norm_train(h, g.param("scale", channel), g.param("bias", channel),
                                    g.param("mean", channel), g.param("variance", channel));
  g.output("new_mean", y[3]);
  g.output("new_variance", y[4]);
  g.output("loss", g.mean(g.square(g.relu(y[0])), {0, 1, 2, 3}));
  TrainingOptions options{.renewed = {{"mean", "new_mean"}, {"variance", "new_variance"}}, .ranks = 2};
  const auto plain = made(g, options);
  options.sync_batch_norm = true;
  const auto synchronised = made(g, options);
  CHECK(count(synchronised.graph, Op::batch_norm_train) == 0);
  CHECK(synchronised.notes.size() == 1);
  for (const InitialValue& usual : initial_values(plain.graph, 7)) {
    CAPTURE(usual.param);
    const auto is_it = [&](const auto& one) { return one.param == usual.param; };
    const auto start = std::find_if(synchronised.starts.begin(), synchronised.starts.end(), is_it);
    if (start == synchronised.starts.end()) {
      const auto values = initial_values(synchronised.graph, 7);
      CHECK(std::find_if(values.begin(), values.end(), is_it)->bytes == usual.bytes);
    } else if (usual.param == "mean" || usual.param == "variance") {
      CHECK(start->value == (usual.param == "mean" ? 0.0 : 1.0));
    }
  }
  options.ranks = 1;
  CHECK(count(made(g, options).graph, Op::batch_norm_train) == 1);
}
