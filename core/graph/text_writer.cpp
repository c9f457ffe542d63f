// SPDX-License-Identifier: Apache-2.0
// text_writer.cpp: a graph as text, one statement a line. The grammar is in docs/graph.md.
//
// Invariant: equal graphs give equal texts, and reading a text gives a graph of that text.
#include "base/schema.hpp"
#include "graph/elements.hpp"
#include "graph/state.hpp"
#include "graph/words.hpp"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

class Writer {
 public:
  explicit Writer(const Graph::State& state) : state_(state) {}

  std::string run() && {
    out_ = "tenon-graph 1" + (state_.name.empty() ? "" : " " + state_.name) + "\n";
    for (const auto& [comm, ranks] : state_.ranks)
      out_ += "comm " + std::to_string(comm) + " = " + std::to_string(ranks) + "\n";
    for (const Graph::Node& node : state_.nodes) {
      leaves_before(first_needed(node));
      write(node);
    }
    leaves_before(static_cast<uint32_t>(state_.values.size()));
    for (const Graph::Output& output : state_.outputs)
      out_ += "output " + output.name + " = " + reference(output.value) + "\n";
    out_ += "end\n";
    return std::move(out_);
  }

 private:
  // Leaves in front of this value stand before the node, so that reading numbers all values alike.
  static uint32_t first_needed(const Graph::Node& node) {
    for (const uint32_t index : node.outputs) {
      if (index != TN_ABSENT) return index;
    }
    uint32_t last = 0;
    for (const uint32_t index : node.inputs) last = index == TN_ABSENT ? last : std::max(last, index + 1);
    return last;
  }

  void leaves_before(uint32_t end) {
    for (; next_ < end; ++next_) {
      if (state_.values[next_].role != Graph::Role::computed) write(state_.values[next_]);
    }
  }

  std::string reference(uint32_t index) const {
    return index == TN_ABSENT ? "_" : "%" + state_.values[index].name;
  }
  static std::string declaration(const Graph::ValueInfo& info) {
    return "%" + info.name + ": " + graph::words(info.spec);
  }

  void write(const Graph::ValueInfo& info) {
    constexpr std::string_view words[] = {"input ", "param ", "constant "};
    out_ += std::string(words[static_cast<size_t>(info.role)]) + declaration(info);
    std::string more;
    if (info.spec.alignment != 0) more = "alignment=" + std::to_string(info.spec.alignment);
    if (!info.spec.strides.empty())
      more += (more.empty() ? "" : ", ") + ("strides=" + graph::words(info.spec.strides));
    if (!more.empty()) out_ += " {" + more + "}";
    if (info.role == Graph::Role::constant) out_ += " = " + graph::elements_text(info.spec, info.constant);
    out_ += "\n";
  }

  void write(const Graph::Node& node) {
    std::string made;
    for (const uint32_t index : node.outputs)
      made += (made.empty() ? "" : ", ") + (index == TN_ABSENT ? "_" : declaration(state_.values[index]));
    out_ += made.empty() ? "" : made + " = ";
    out_ += std::string(name(node.op)) + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) out_ += (i == 0 ? "" : ", ") + reference(node.inputs[i]);
    out_ += ")" + attributes(node) + "\n";
  }

  // Those that are not as the table has them.
  static std::string attributes(const Graph::Node& node) {
    std::string out;
    const base::OpSchema& schema = *base::schema_of(node.op);
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      const Attribute& attribute = node.attributes[i];
      const base::AttributeSchema& known = schema.attributes[i];
      const std::string value = graph::words(attribute.value);
      if (known.required || value != graph::words(known.fallback))
        out += (out.empty() ? " {" : ", ") + attribute.name + "=" + value;
    }
    return out.empty() ? out : out + "}";
  }

  const Graph::State& state_;
  std::string out_{};
  uint32_t next_ = 0;  // the next value that may be a leaf to be written
};

}  // namespace

std::string Graph::text() const { return Writer(*state_).run(); }

}  // namespace tenon
