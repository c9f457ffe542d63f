// SPDX-License-Identifier: Apache-2.0
// comm_step.cpp: the step of comm_case.hpp: from a list, or from a training graph.
#include "comm_case.hpp"
#include "comm_lines.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace tenon::tool {
namespace {

constexpr double ms = 1e6;

std::string in_ms(double ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f ms", ns / ms);
  return text;
}

std::string times_of(const StepProfile& step) {
  double backward = step.backward_ns;
  for (const Gradient& gradient : step.gradients) backward = std::max(backward, gradient.ready_ns);
  return "forward " + in_ms(step.forward_ns) + ", backward " + in_ms(backward) + ", update " +
         in_ms(step.update_ns);
}

Result<Gradient> gradient_of(const Line& line) {
  if (line.words.size() < 3 || line.words.size() > 5)
    return line.wrong("a gradient is NAME TYPE ELEMENTS [READY_MS [NEEDED_MS]]");
  const auto dtype = dtype_from(line.words[1]);
  if (!dtype.ok()) return line.wrong(std::string(dtype.message()));
  const uint64_t elements = TN_TRY(line.count(2));
  Gradient out{.name = line.words[0], .dtype = *dtype, .elements = elements};
  if (line.words.size() > 3) out.ready_ns = TN_TRY(line.time(3));
  if (line.words.size() > 4) out.needed_ns = TN_TRY(line.time(4));
  return out;
}

bool is_update(Op op) { return op == Op::sgd || op == Op::momentum || op == Op::adam || op == Op::adamw; }

// A parameter's layer is all of its name up to the last dot; a plan takes it up to the first.
std::string with_layer(std::string name) {
  const size_t last = name.rfind('.');
  for (size_t i = 0; i < name.size() && last != std::string::npos; ++i) {
    if (name[i] == '.' && i != last) name[i] = '/';
  }
  return name;
}

// When each value is made and first read, on one clock that runs while anything but updates does.
struct Clock {
  std::vector<double> made, read;
  double end = 0, updates = 0;

  Clock(const Graph& graph, const FusionCut& cut)
      : made(graph.values().size(), 0), read(graph.values().size(), -1) {
    for (const FusionGroup& group : cut.groups) {
      const auto node = [&](uint32_t i) -> const Graph::Node& { return graph.nodes()[i]; };
      const bool updating = std::all_of(group.nodes.begin(), group.nodes.end(),
                                        [&](uint32_t i) { return is_update(node(i).op); });
      (updating ? updates : end) += group.cost_ns;
      if (updating) continue;
      for (const uint32_t i : group.nodes) run(node(i), end - group.cost_ns);
    }
  }

 private:
  void run(const Graph::Node& node, double begin) {
    for (const uint32_t value : node.inputs) {
      if (value != TN_ABSENT && read[value] < 0) read[value] = begin;
    }
    for (const uint32_t value : node.outputs) {
      if (value != TN_ABSENT) made[value] = end;
    }
  }
};

// The value that each parameter's update takes as its gradient, in the order of the parameters.
std::map<uint32_t, uint32_t> gradients_of(const Graph& graph) {
  std::map<uint32_t, uint32_t> out;
  for (const Graph::Node& node : graph.nodes()) {
    if (is_update(node.op)) out.emplace(node.inputs[0], node.inputs[1]);
  }
  return out;
}

}  // namespace

Result<CommStep> listed_step(const std::string& text, const std::string& file) {
  StepProfile step;
  for (const Line& line : lines_of(text, file)) {
    double* const time = line.words[0] == "forward"    ? &step.forward_ns
                         : line.words[0] == "backward" ? &step.backward_ns
                         : line.words[0] == "update"   ? &step.update_ns
                                                       : nullptr;
    if (time != nullptr && line.words.size() == 2)
      *time = TN_TRY(line.time(1));
    else
      step.gradients.push_back(TN_TRY(gradient_of(line)));
  }
  if (step.gradients.empty())
    return Status(TN_INVALID, file + " lists no gradient: write a line NAME TYPE ELEMENTS for each");
  const std::string told =
      std::to_string(step.gradients.size()) + " gradients of " + file + "; " + times_of(step) + ", as listed";
  return CommStep{std::move(step), told};
}

Result<CommStep> step_of(const Graph& graph, const FusionCut& cut, const std::string& device) {
  const std::map<uint32_t, uint32_t> gradients = gradients_of(graph);
  if (gradients.empty())
    return Status(TN_INVALID,
                  "graph '" + graph.name() +
                      "' has no optimizer update, whose gradients would be sent: bring a training "
                      "step (samples/graphs), or a list of gradients");
  const Clock clock(graph, cut);
  // Backward begins where the last parameter is first read.
  double backward_begins = 0;
  for (const auto& [parameter, gradient] : gradients)
    backward_begins = std::max(backward_begins, clock.read[parameter]);
  StepProfile step{
      .forward_ns = backward_begins, .backward_ns = clock.end - backward_begins, .update_ns = clock.updates};
  for (const auto& [parameter, gradient] : gradients) {
    const Graph::ValueInfo& value = graph.values()[gradient];
    step.gradients.push_back({.name = with_layer(graph.values()[parameter].name),
                              .dtype = value.spec.dtype,
                              .elements = static_cast<uint64_t>(value.spec.elements()),
                              .ready_ns = std::max(0.0, clock.made[gradient] - backward_begins),
                              .needed_ns = std::max(0.0, clock.read[parameter])});
  }
  const std::string told = std::to_string(step.gradients.size()) + " gradients of graph '" + graph.name() +
                           "'; " + times_of(step) + ", predicted by bytes moved on " + device;
  return CommStep{std::move(step), told};
}

}  // namespace tenon::tool
