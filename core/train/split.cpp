// SPDX-License-Identifier: Apache-2.0
// split.cpp: see split.hpp.
#include "train/split.hpp"

#include "passes/rewriter.hpp"

#include <algorithm>

namespace tenon::train {
namespace {

constexpr std::string_view suffix = ".gradient";

// Of gradients; those of other communicators are taken in the midst of the step.
bool is_sum(const Graph::Node& node) {
  return node.op == Op::all_reduce && std::get<int64_t>(passes::attribute(node, "comm")) == 0;
}

// What each value follows from.
struct Origins {
  std::vector<bool> own{};   // from this rank's samples, up to sums over ranks
  std::vector<bool> late{};  // from sums over ranks
};

Origins origins_of(const Graph& graph, std::string_view divisor) {
  const auto values = graph.values();
  Origins out{std::vector<bool>(values.size()), std::vector<bool>(values.size())};
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (values[i].role != Graph::Role::input) continue;
    (values[i].name == divisor ? out.late : out.own)[i] = true;
  }
  for (const Graph::Node& node : graph.nodes()) {
    const auto any = [&](const std::vector<bool>& marks) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](uint32_t value) { return value != TN_ABSENT && marks[value]; });
    };
    const bool own = any(out.own) && !is_sum(node), late = any(out.late) || is_sum(node);
    for (const uint32_t value : node.outputs) {
      if (value == TN_ABSENT) continue;
      out.own[value] = own;
      out.late[value] = late;
    }
  }
  return out;
}

// Marks what the nodes that make a marked value read, unless `stops` says of a value that somebody else makes it.
template <class Stops>
void mark_needed(const Graph& graph, std::vector<bool>& needed, Stops&& stops) {
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    const bool any = std::any_of(node->outputs.begin(), node->outputs.end(), [&](uint32_t value) {
      return value != TN_ABSENT && needed[value] && !stops(value);
    });
    for (const uint32_t value : node->inputs)
      if (any && value != TN_ABSENT) needed[value] = true;
  }
}

bool makes_any(const Graph::Node& node, const std::vector<bool>& marks) {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](uint32_t value) { return value != TN_ABSENT && marks[value]; });
}

void take_sum(passes::Rewriter& writer, const Graph::Node& node) {
  const Graph::ValueInfo& sum = writer.from(node.outputs[0]);
  writer.set(node.outputs[0], writer.to().input(sum.name, sum.spec));
}

bool is_made_by_sum(const Graph& graph, uint32_t value) {
  const uint32_t producer = graph.values()[value].producer;
  return producer != TN_ABSENT && is_sum(graph.nodes()[producer]);
}

class Splitter {
 public:
  Splitter(const passes::Rewritten& work, std::string_view divisor)
      : work_(work),
        graph_(work.graph),
        origins_(origins_of(graph_, divisor)),
        second_(graph_.values().size()),
        first_(graph_.values().size()) {
    for (const Graph::Output& output : graph_.outputs()) {
      if (!is_firsts(output.value)) second_[output.value] = true;
    }
    mark_needed(graph_, second_,
                [&](uint32_t value) { return is_firsts(value) || is_made_by_sum(graph_, value); });
    for (const Graph::Output& output : graph_.outputs()) first_[output.value] = is_firsts(output.value);
    for (const Graph::Node& node : graph_.nodes()) {
      for (const uint32_t value : node.outputs)
        if (value != TN_ABSENT && (is_sum(node) || crosses(value))) first_[value] = true;
    }
    mark_needed(graph_, first_, [](uint32_t) { return false; });
  }

  Result<Halves> run() {
    passes::Rewritten gradients = TN_TRY(first());
    passes::Rewritten updates = TN_TRY(second());
    return Halves{std::move(gradients), std::move(updates), std::move(crossings_)};
  }

 private:
  // Computed from samples, and needs no sum.
  bool is_firsts(uint32_t value) const {
    return graph_.values()[value].role == Graph::Role::computed && origins_.own[value] &&
           !origins_.late[value];
  }
  bool crosses(uint32_t value) const { return second_[value] && is_firsts(value); }

  Result<passes::Rewritten> first() {
    auto writer = TN_TRY(passes::Rewriter::begin(work_, "gradients"));
    writer.walk(
        [&](uint32_t leaf) {
          if (first_[leaf]) writer.leaf(leaf);
        },
        [&](uint32_t i) {
          if (makes_any(graph_.nodes()[i], first_)) writer.copy(graph_.nodes()[i]);
        });
    for (uint32_t value = 0; value < second_.size(); ++value) {
      if (!crosses(value)) continue;
      const std::string& input = graph_.values()[value].name;
      crossings_.push_back({writer.fresh_output(input + ".crosses"), input});
      writer.more_output(crossings_.back().output, writer.at(value));
    }
    const passes::Rewriter& written = writer;
    return std::move(writer).finish([&](const Graph::Output& output) {
      return is_firsts(output.value) ? written.at(output.value) : GraphValue{};
    });
  }

  Result<passes::Rewritten> second() {
    auto writer = TN_TRY(passes::Rewriter::begin(passes::Rewritten(graph_), "updates"));
    writer.walk(
        [&](uint32_t leaf) {
          if (second_[leaf]) writer.leaf(leaf);
        },
        [&](uint32_t i) {
          const Graph::Node& node = graph_.nodes()[i];
          if (!makes_any(node, second_)) return;
          if (is_sum(node)) return take_sum(writer, node);
          if (!std::any_of(node.outputs.begin(), node.outputs.end(),
                           [&](uint32_t value) { return value != TN_ABSENT && is_firsts(value); }))
            return writer.copy(node);
          for (const uint32_t value : node.outputs) {
            if (value != TN_ABSENT && second_[value])
              writer.set(value, writer.to().input(graph_.values()[value].name, graph_.values()[value].spec));
          }
        });
    const passes::Rewriter& written = writer;
    return std::move(writer).finish([&](const Graph::Output& output) {
      return is_firsts(output.value) ? GraphValue{} : written.at(output.value);
    });
  }

  const passes::Rewritten& work_;
  const Graph& graph_;
  Origins origins_;
  std::vector<bool> second_, first_;  // values that a half makes or reads
  std::vector<Halves::Crossing> crossings_{};
};

}  // namespace

std::string gradient_of(std::string param) { return std::move(param) + std::string(suffix); }

std::string parameter_of(std::string sum) {
  if (sum.ends_with(suffix)) sum.resize(sum.size() - suffix.size());
  return sum;
}

Result<passes::Rewritten> updates_only(const Graph& graph, std::string_view divisor) {
  const std::vector<bool> own = origins_of(graph, divisor).own;
  auto writer = TN_TRY(passes::Rewriter::begin(graph, "no samples"));
  writer.walk(
      [&](uint32_t leaf) {
        if (!own[leaf]) writer.leaf(leaf);
      },
      [&](uint32_t i) {
        const Graph::Node& node = graph.nodes()[i];
        if (makes_any(node, own)) return;
        if (!is_sum(node)) return writer.copy(node);
        take_sum(writer, node);
      });
  const passes::Rewriter& written = writer;
  return std::move(writer).finish([&](const Graph::Output& output) {
    return is_made_by_sum(graph, output.value) ? GraphValue{} : written.at(output.value);
  });
}

Result<Halves> split(const passes::Rewritten& work, std::string_view divisor) {
  return Splitter(work, divisor).run();
}

}  // namespace tenon::train
