// SPDX-License-Identifier: Apache-2.0
// match.cpp: patterns against a graph, step by step along its edges.
#include "fusion/match.hpp"

#include <algorithm>

namespace tenon::fusion {
namespace {

constexpr uint32_t none = TN_ABSENT;
constexpr uint32_t most_options = 8;
constexpr size_t most_users = 64;  // of one value that a step is looked for among

Status bad(const FusionPattern& pattern, std::string text) {
  return Status(TN_INVALID, "pattern '" + pattern.name + "': " + std::move(text));
}

bool is_free(uint32_t operand) noexcept { return (operand & FusionPattern::free_input) != 0; }

Status check(const FusionPattern& pattern) {
  if (pattern.steps.empty()) return bad(pattern, "has no steps");
  uint32_t options = 0;
  for (uint32_t i = 0; i < pattern.steps.size(); ++i) {
    const FusionPattern::Step& step = pattern.steps[i];
    const std::string at = "step " + std::to_string(i);
    if (step.ops.empty()) return bad(pattern, at + " names no op");
    for (const uint32_t operand : step.operands) {
      if (!is_free(operand) && operand >= i)
        return bad(pattern,
                   at + " reads step " + std::to_string(operand) + ", which does not stand before it");
    }
    if (!step.optional) continue;
    if (step.operands.empty()) return bad(pattern, at + " is optional and has no operand to stand for it");
    if (++options > most_options)
      return bad(pattern, "has more than " + std::to_string(most_options) + " optional steps");
  }
  return {};
}

// The pattern with the optional steps of which a bit of `left_out` says so taken out.
Variant reduced(const FusionPattern& pattern, uint32_t left_out) {
  Variant variant;
  std::vector<uint32_t> stands_for(pattern.steps.size());  // a step of the variant, or a free input
  uint32_t option = 0;
  for (size_t i = 0; i < pattern.steps.size(); ++i) {
    const FusionPattern::Step& step = pattern.steps[i];
    std::vector<uint32_t> operands;
    for (const uint32_t operand : step.operands)
      operands.push_back(is_free(operand) ? operand : stands_for[operand]);
    if (step.optional && (left_out >> option++ & 1) != 0) {
      stands_for[i] = operands.front();
      // What stands for the last step is what the group gives.
      if (i + 1 == pattern.steps.size() && !is_free(operands.front()))
        variant.steps[operands.front()].output = true;
      continue;
    }
    stands_for[i] = static_cast<uint32_t>(variant.steps.size());
    const bool last = i + 1 == pattern.steps.size();
    variant.steps.push_back(
        {.ops = step.ops, .operands = std::move(operands), .output = step.output || last});
  }
  return variant;
}

bool touches(const Variant& variant, uint32_t a, uint32_t b) {
  const auto reads = [&](uint32_t reader, uint32_t read) {
    const auto& operands = variant.steps[reader].operands;
    return std::find(operands.begin(), operands.end(), read) != operands.end();
  };
  return reads(a, b) || reads(b, a);
}

// From the first step on, always one that touches what is there; false when some are never touched.
bool put_in_order(Variant& variant) {
  variant.order = {0};
  std::vector<bool> there(variant.steps.size());
  there[0] = true;
  while (variant.order.size() < variant.steps.size()) {
    const size_t before = variant.order.size();
    for (uint32_t i = 0; i < variant.steps.size(); ++i) {
      const bool near = !there[i] && std::any_of(variant.order.begin(), variant.order.end(),
                                                 [&](uint32_t other) { return touches(variant, i, other); });
      if (!near) continue;
      there[i] = true;
      variant.order.push_back(i);
    }
    if (variant.order.size() == before) return false;
  }
  return true;
}

bool is_commutative(Op op) noexcept {
  return op == Op::add || op == Op::mul || op == Op::max || op == Op::min;
}

// One try: nodes for the steps so far.
class Matcher {
 public:
  Matcher(const Graph& graph, const Variant& variant)
      : graph_(graph),
        variant_(variant),
        nodes_(variant.steps.size(), none),
        swapped_(variant.steps.size()) {}

  std::vector<uint32_t> run(uint32_t node) {
    return place(0, node) ? std::vector<uint32_t>(nodes_) : std::vector<uint32_t>();
  }

 private:
  struct Free {
    uint32_t operand, value;
  };

  uint32_t value_of(uint32_t step) const { return graph_.nodes()[nodes_[step]].outputs.front(); }

  // Whether operand `operand` of a pattern is `value`; notes what a free input is.
  bool binds(uint32_t operand, uint32_t value) {
    if (!is_free(operand)) return nodes_[operand] == none || value_of(operand) == value;
    for (const Free& known : free_) {
      if (known.operand == operand) return known.value == value;
    }
    free_.push_back({operand, value});
    return true;
  }

  // The value that a placed step has as its operand.
  uint32_t operand_value(uint32_t step, size_t operand) const {
    return graph_.nodes()[nodes_[step]].inputs[swapped_[step] ? 1 - operand : operand];
  }

  bool binds_all(uint32_t step) {
    const auto& operands = variant_.steps[step].operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!binds(operands[i], operand_value(step, i))) return false;
    }
    return true;
  }

  // Steps that read this one and are placed already read its value.
  bool readers_agree(uint32_t step) const {
    for (uint32_t reader = 0; reader < nodes_.size(); ++reader) {
      const auto& operands = variant_.steps[reader].operands;
      for (size_t i = 0; nodes_[reader] != none && i < operands.size(); ++i) {
        if (operands[i] == step && operand_value(reader, i) != value_of(step)) return false;
      }
    }
    return true;
  }

  // Places the step that is at `at` in the order on `node`, and the rest.
  bool place(size_t at, uint32_t node) {
    const uint32_t step_index = variant_.order[at];
    const Variant::Step& step = variant_.steps[step_index];
    const Graph::Node& told = graph_.nodes()[node];
    if (std::find(step.ops.begin(), step.ops.end(), told.op) == step.ops.end()) return false;
    if (step.operands.size() > told.inputs.size() || told.outputs.empty() || told.outputs.front() == none)
      return false;
    if (std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end()) return false;
    const size_t known = free_.size();
    const bool two_ways = step.operands.size() == 2 && is_commutative(told.op);
    for (const bool swapped : {false, true}) {
      if (swapped && !two_ways) break;
      nodes_[step_index] = node;
      swapped_[step_index] = swapped;
      if (binds_all(step_index) && readers_agree(step_index) && go_on(at + 1)) return true;
      nodes_[step_index] = none;
      free_.resize(known);
    }
    return false;
  }

  bool go_on(size_t at) {
    if (at == variant_.order.size()) return true;
    const uint32_t step = variant_.order[at];
    // Through a step that reads it, to where its value comes from …
    for (uint32_t reader = 0; reader < nodes_.size(); ++reader) {
      const auto& operands = variant_.steps[reader].operands;
      for (size_t i = 0; nodes_[reader] != none && i < operands.size(); ++i) {
        if (operands[i] != step) continue;
        const uint32_t value = operand_value(reader, i);
        const uint32_t producer = value == none ? none : graph_.values()[value].producer;
        return producer != none && place(at, producer);
      }
    }
    // … or through a step that it reads, to who uses its value.
    for (const uint32_t operand : variant_.steps[step].operands) {
      if (is_free(operand) || nodes_[operand] == none) continue;
      const auto& users = graph_.values()[value_of(operand)].users;
      for (size_t i = 0; i < users.size() && i < most_users; ++i) {
        if (place(at, users[i])) return true;
      }
      return false;
    }
    return false;
  }

  const Graph& graph_;
  const Variant& variant_;
  std::vector<uint32_t> nodes_;
  std::vector<bool> swapped_;  // a commutative step whose operands stand the other way round
  std::vector<Free> free_{};
};

}  // namespace

Result<std::vector<Variant>> variants_of(const FusionPattern& pattern) {
  TN_TRY(check(pattern));
  uint32_t options = 0;
  for (const FusionPattern::Step& step : pattern.steps) options += step.optional ? 1 : 0;
  std::vector<Variant> variants;
  for (uint32_t left_out = 0; left_out < 1u << options; ++left_out) {
    Variant variant = reduced(pattern, left_out);
    if (variant.steps.size() < 2) continue;  // no fusion
    if (!put_in_order(variant)) return bad(pattern, "has steps that touch no other step");
    variants.push_back(std::move(variant));
  }
  std::stable_sort(variants.begin(), variants.end(),
                   [](const Variant& a, const Variant& b) { return a.steps.size() > b.steps.size(); });
  return variants;
}

std::vector<uint32_t> match(const Graph& graph, const Variant& variant, uint32_t node) {
  return Matcher(graph, variant).run(node);
}

uint32_t escaping_value(const Graph& graph, const std::vector<bool>& is_output, const Variant& variant,
                        const std::vector<uint32_t>& nodes) {
  for (size_t step = 0; step < nodes.size(); ++step) {
    if (variant.steps[step].output) continue;
    for (const uint32_t value : graph.nodes()[nodes[step]].outputs) {
      if (value == none) continue;
      const auto& users = graph.values()[value].users;
      const bool leaves = std::any_of(users.begin(), users.end(), [&](uint32_t user) {
        return std::find(nodes.begin(), nodes.end(), user) == nodes.end();
      });
      if (leaves || is_output[value]) return value;
    }
  }
  return none;
}

}  // namespace tenon::fusion
