// SPDX-License-Identifier: Apache-2.0
// addto.cpp: where gradients join, the running sum stays in one buffer, and products are added to it.
//
// Invariant: nodes and their order stay as they are; only the places where sums live are said.
#include "base/text.hpp"
#include "graph/columns.hpp"
#include "passes/rewriter.hpp"
#include "passes/storage.hpp"

#include <algorithm>

namespace tenon::passes {
namespace {

using graph::Family;

// Adds from the first to the last; each but the first takes the sum of the one before as input `running`.
struct Join {
  struct Step {
    uint32_t node, running;
  };
  std::vector<Step> steps;
  size_t terms() const { return steps.size() + 1; }
};

class Joins {
 public:
  explicit Joins(const Graph& graph)
      : g_(graph), inside_(graph.nodes().size()), is_output_(graph.values().size()) {
    for (const Graph::Output& output : graph.outputs()) is_output_[output.value] = true;
  }

  // Every chain of adds with a product among its terms, in the order of their ends.
  std::vector<Join> find() && {
    std::vector<Join> out;
    for (auto i = static_cast<uint32_t>(g_.nodes().size()); i-- > 0;) {
      if (inside_[i] || !is_plain_add(i)) continue;
      Join join = chain(i);
      if (has_product(join)) out.push_back(std::move(join));
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

 private:
  bool is_plain_add(uint32_t node) const {
    const Graph::Node& told = g_.nodes()[node];
    const auto dims = [&](uint32_t value) -> const auto& { return g_.values()[value].spec.dims; };
    return told.op == Op::add && graph::is_float(g_.values()[told.outputs[0]].spec.dtype) &&
           dims(told.inputs[0]) == dims(told.inputs[1]);
  }

  // The node that makes `value` for one reader alone, or TN_ABSENT.
  uint32_t sole_producer(uint32_t value) const {
    const Graph::ValueInfo& info = g_.values()[value];
    return info.users.size() == 1 && !is_output_[value] ? info.producer : TN_ABSENT;
  }

  Join chain(uint32_t last) {
    Join join;
    for (uint32_t node = last; node != TN_ABSENT;) {
      inside_[node] = true;
      uint32_t next = TN_ABSENT, running = 0;
      for (uint32_t input = 0; input < 2 && next == TN_ABSENT; ++input) {
        const uint32_t producer = sole_producer(g_.nodes()[node].inputs[input]);
        if (producer == TN_ABSENT || inside_[producer] || !is_plain_add(producer)) continue;
        next = producer;
        running = input;
      }
      join.steps.push_back({node, running});
      node = next;
    }
    std::reverse(join.steps.begin(), join.steps.end());
    return join;
  }

  bool has_product(const Join& join) const {
    const auto is_product = [&](uint32_t value) {
      const uint32_t producer = sole_producer(value);
      if (producer == TN_ABSENT) return false;
      const Family family = graph::columns_of(g_.nodes()[producer].op).family;
      return family == Family::MATMUL || family == Family::CONV;
    };
    return std::any_of(join.steps.begin(), join.steps.end(), [&](const Join::Step& step) {
      const Graph::Node& node = g_.nodes()[step.node];
      return std::any_of(node.inputs.begin(), node.inputs.end(), is_product);
    });
  }

  const Graph& g_;
  std::vector<bool> inside_;     // per node: part of a chain
  std::vector<bool> is_output_;  // per value
};

void accumulate(const Join& join, Rewritten& work, Storage& storage) {
  for (size_t i = 0; i < join.steps.size(); ++i) {
    const auto [node, running] = join.steps[i];
    const Graph::Node& told = work.graph.nodes()[node];
    std::string why = storage.take(node, {0, running}).why_not;
    uint32_t taken = running;
    if (!why.empty() && i == 0 && storage.take(node, {0, 1 - running})) {  // either may begin
      why.clear();
      taken = 1 - running;
    }
    const std::string into = base::quoted(work.graph.values()[told.inputs[taken]].name, 64);
    work.notes.push_back({"addto", called(work.graph, told), "accumulates into " + into,
                          why.empty() ? "a sum of " + base::counted(join.terms(), "term") : why,
                          why.empty()});
  }
}

}  // namespace

Result<Rewritten> addto(Rewritten work, const AddtoOptions& options) {
  TN_TRY(work.graph.check());
  const std::string limit = "max_inplace_grad_add " + std::to_string(options.max_inplace_grad_add);
  if (options.max_inplace_grad_add < 0)
    return Status(TN_INVALID, "addto: " + limit + ": give 0, which turns it off, or more");
  const std::vector<Join> joins = Joins(work.graph).find();
  if (joins.empty())
    work.notes.push_back({"addto", "", limit, "no sum has a product or convolution among its terms", false});
  Storage storage(work, false);
  for (const Join& join : joins) {
    const Graph::Node& last = work.graph.nodes()[join.steps.back().node];
    if (join.terms() <= static_cast<size_t>(options.max_inplace_grad_add)) {
      accumulate(join, work, storage);
    } else {
      work.notes.push_back({"addto", called(work.graph, last), "accumulates in one buffer",
                            "it is a sum of " + base::counted(join.terms(), "term") + " and " + limit,
                            false});
    }
  }
  return work;
}

}  // namespace tenon::passes
