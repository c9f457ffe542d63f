// SPDX-License-Identifier: Apache-2.0
// dot.cpp: a graph as a picture for Graphviz: nodes are boxes, what is fed in is round (parameters shaded), edges carry
// type and shape.
#include "graph/state.hpp"
#include "graph/words.hpp"

namespace tenon {
namespace {

// Names hold no quotes and no backslashes, so they stand between quotes as they are.
std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out;
}

class Picture {
 public:
  explicit Picture(const Graph::State& state) : state_(state) {}

  std::string run() && {
    out_ = "digraph " + in_quotes(state_.name.empty() ? "graph" : state_.name) + " {\n";
    out_ += "  rankdir=TB;\n  node [shape=box, style=rounded, fontname=Helvetica];\n";
    out_ += "  edge [fontname=Helvetica, fontsize=9];\n";
    for (uint32_t i = 0; i < state_.values.size(); ++i) leaf(i);
    for (uint32_t i = 0; i < state_.nodes.size(); ++i) node(i);
    for (const Graph::Output& output : state_.outputs) {
      const std::string target = in_quotes("output " + output.name);
      out_ += "  " + target + " [label=" + in_quotes(output.name) + ", shape=ellipse, style=bold];\n";
      edge(output.value, target);
    }
    return std::move(out_) + "}\n";
  }

 private:
  std::string source(uint32_t value) const {
    const Graph::ValueInfo& info = state_.values[value];
    return info.producer == TN_ABSENT ? in_quotes("value " + info.name)
                                      : in_quotes("node " + std::to_string(info.producer));
  }

  void edge(uint32_t value, const std::string& target) {
    out_ += "  " + source(value) + " -> " + target +
            " [label=" + in_quotes(graph::words(state_.values[value].spec)) + "];\n";
  }

  void leaf(uint32_t index) {
    const Graph::ValueInfo& info = state_.values[index];
    if (info.role == Graph::Role::computed) return;
    const char* style = info.role == Graph::Role::input   ? "shape=ellipse, style=solid"
                        : info.role == Graph::Role::param ? "shape=ellipse, style=filled, fillcolor=lightgrey"
                                                          : "shape=plaintext, style=solid";
    out_ += "  " + source(index) + " [label=" + in_quotes(info.name) + ", " + style + "];\n";
  }

  void node(uint32_t index) {
    const Graph::Node& node = state_.nodes[index];
    std::string label(name(node.op));
    if (!node.outputs.empty() && node.outputs.front() != TN_ABSENT)
      label += "\\n" + state_.values[node.outputs.front()].name;
    std::string hint;
    for (const Attribute& attribute : node.attributes)
      hint += attribute.name + "=" + graph::words(attribute.value) + " ";
    const std::string target = in_quotes("node " + std::to_string(index));
    out_ += "  " + target + " [label=" + in_quotes(label) + ", tooltip=" + in_quotes(escaped(hint)) + "];\n";
    for (const uint32_t value : node.inputs) {
      if (value != TN_ABSENT) edge(value, target);
    }
  }

  const Graph::State& state_;
  std::string out_{};
};

}  // namespace

std::string Graph::dot() const { return Picture(*state_).run(); }

}  // namespace tenon
