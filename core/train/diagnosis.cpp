// SPDX-License-Identifier: Apache-2.0
// diagnosis.cpp: see diagnosis.hpp.
#include "train/diagnosis.hpp"

#include "base/text.hpp"
#include "passes/rewriter.hpp"
#include "train/split.hpp"

#include <algorithm>

namespace tenon::train {
namespace {

struct Found {
  std::string param;
  uint32_t value = TN_ABSENT;  // the gradient, before it is summed over ranks
};

// What the verdict is about: the inputs of its node, or in sharded mode, where that is another graph's, what is summed.
std::vector<Found> judged(const TrainingGraph& step, const Graph& graph) {
  std::vector<Found> out;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.op != Op::check_finite_and_unscale) continue;
    for (size_t i = 1; i < node.inputs.size(); ++i) out.push_back({step.trained[i - 1], node.inputs[i]});
    return out;
  }
  for (const Graph::Node& node : graph.nodes()) {
    if (node.op != Op::all_reduce) continue;
    const std::string param = parameter_of(graph.values()[node.outputs[0]].name);
    if (std::find(step.trained.begin(), step.trained.end(), param) != step.trained.end())
      out.push_back({param, node.outputs[0]});
  }
  return out;
}

// Behind casts and sums over ranks there is this rank's own.
std::vector<Found> gradients_of(const TrainingGraph& step, const Graph& graph) {
  const auto nodes = graph.nodes();
  std::vector<Found> out = judged(step, graph);
  for (Found& found : out) {
    uint32_t& value = found.value;
    for (;;) {
      const uint32_t producer = graph.values()[value].producer;
      if (producer == TN_ABSENT || (nodes[producer].op != Op::cast && nodes[producer].op != Op::all_reduce))
        break;
      value = nodes[producer].inputs[0];
    }
  }
  std::stable_sort(out.begin(), out.end(), [&](const Found& a, const Found& b) {
    return graph.values()[a.value].producer < graph.values()[b.value].producer;
  });
  return out;
}

// The nodes that these values need.
std::vector<bool> needed(const Graph& graph, const std::vector<Found>& found) {
  std::vector<bool> values(graph.values().size()), out(graph.nodes().size());
  for (const Found& gradient : found) values[gradient.value] = true;
  for (size_t i = out.size(); i-- > 0;) {
    const Graph::Node& node = graph.nodes()[i];
    out[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                         [&](uint32_t value) { return value != TN_ABSENT && values[value]; });
    for (const uint32_t value : node.inputs) {
      if (out[i] && value != TN_ABSENT) values[value] = true;
    }
  }
  return out;
}

// A sum over ranks becomes what it would be if all were as this one, which looks for itself alone.
void copy(passes::Rewriter& writer, const Graph::Node& node) {
  if (node.op != Op::all_reduce) return writer.copy(node);
  const auto ranks = writer.from().communicators().at(std::get<int64_t>(passes::attribute(node, "comm")));
  const std::string& called = writer.from(node.outputs[0]).name;
  writer.set(node.outputs[0],
             writer.to().named(called).scale(writer.at(node.inputs[0]), static_cast<double>(ranks)));
}

// 1 where all of it is finite, else 0.
GraphValue look_at(Graph& graph, GraphValue gradient) {
  const GraphValue finite = graph.cast(graph.is_finite(gradient), f32);
  std::vector<int64_t> axes(graph.spec(gradient).dims.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  return axes.empty() ? finite : graph.reduce_min(finite, axes);
}

}  // namespace

Result<Diagnosis> Diagnosis::open(const TrainingGraph& step, const Plan& plan, Device& device,
                                  const PlanOptions& options) {
  const Graph& graph = plan.graph();
  const std::vector<Found> found = gradients_of(step, graph);
  const std::vector<bool> nodes = needed(graph, found);
  auto writer = TN_TRY(passes::Rewriter::begin(graph, "diagnosis"));
  writer.walk(
      [&](uint32_t leaf) {
        const auto& users = graph.values()[leaf].users;
        if (std::any_of(users.begin(), users.end(), [&](uint32_t user) { return nodes[user]; }))
          writer.leaf(leaf);
      },
      [&](uint32_t node) {
        if (nodes[node]) copy(writer, graph.nodes()[node]);
      });
  Diagnosis out;
  for (const Found& gradient : found) {
    const std::string output = writer.fresh_output("finite." + gradient.param);
    writer.more_output(output, look_at(writer.to(), writer.at(gradient.value)));
    out.looks_.push_back({gradient.param, output});
  }
  const passes::Rewritten work =
      TN_TRY(std::move(writer).finish([](const Graph::Output&) { return GraphValue{}; }));
  out.plan_ = TN_TRY(tenon::plan(work.graph, device, options));
  return out;
}

Result<std::string> Diagnosis::run(Device& device, Stream& stream, const SpanOf& span_of) const {
  std::vector<Binding> bindings;
  for (const Graph::ValueInfo& info : plan_.graph().values()) {
    if (info.role == Graph::Role::input || info.role == Graph::Role::param)
      bindings.push_back({info.name, span_of(info.name)});
  }
  std::vector<Buffer> verdicts;
  for (const Look& look : looks_) {
    verdicts.push_back(TN_TRY(device.allocate(stream, sizeof(float))));
    bindings.push_back({look.output, verdicts.back()});
  }
  TN_TRY(plan_.run(stream, bindings));
  std::vector<float> finite(looks_.size());
  for (size_t i = 0; i < finite.size(); ++i) TN_TRY(stream.download(std::span(&finite[i], 1), verdicts[i]));
  TN_TRY(stream.sync());
  const auto first = std::find(finite.begin(), finite.end(), 0.0f);
  if (first == finite.end())
    return std::string("every gradient of this rank is finite: another's, or their sum, is not");
  const auto bad = static_cast<uint64_t>(std::count(finite.begin(), finite.end(), 0.0f));
  return base::quoted(looks_[static_cast<size_t>(first - finite.begin())].param) + " is the first of " +
         base::counted(bad, "gradient") + (bad == 1 ? " that is not finite" : " that are not finite");
}

}  // namespace tenon::train
