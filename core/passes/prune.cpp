// SPDX-License-Identifier: Apache-2.0
// prune.cpp: what no output needs goes, and the updates of parameters that are not trained.
//
// Invariant: what another rank may wait for is not taken away behind its back: a collective that no output needed stays, and
// one goes only with the update it was for, which every rank is told alike. send and recv always stay.
#include "base/text.hpp"
#include "graph/columns.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>

namespace tenon::passes {
namespace {

using graph::Family;

class Pruner {
 public:
  Pruner(Rewriter& out, const PruneOptions& options) : out_(out), g_(out.from()), options_(options) {}

  Result<Rewritten> run() && {
    if (g_.outputs().empty()) {
      out_.note("", "nodes that no output needs", "no value is marked as an output, so nothing is taken away",
                false);
    }
    stopped_.assign(g_.nodes().size(), false);
    for (const std::string& name : options_.stop_gradient) stop(name);
    const std::vector<bool> needed = needed_nodes();
    out_.walk([&](uint32_t old) { leaf(old, needed); }, [&](uint32_t node) { visit(node, needed); });
    out_.note_if_silent("nodes that no output needs", "there are none");
    return std::move(out_).finish([&](const Graph::Output& output) {
      const Rewriter::Value value = out_.at(output.value);
      if (value.index == TN_ABSENT)
        out_.note(output.name, "output left out", "only the update of a stopped parameter makes it");
      return value;
    });
  }

 private:
  // The optimizer nodes of the parameter called `name` are stopped.
  void stop(const std::string& name) {
    const auto values = g_.values();
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.name == name; });
    const std::string what = "stop_gradient " + base::quoted(name, 64);
    if (found == values.end()) {
      std::vector<std::string_view> names;
      for (const Graph::ValueInfo& info : values) names.push_back(info.name);
      return out_.note("", what, "no value has this name" + base::did_you_mean(name, names), false);
    }
    if (found->role == Graph::Role::computed)
      return out_.note(name, what,
                       "it is computed: gradients that went through it are in sums by now; stop parameters",
                       false);
    const auto index = static_cast<uint32_t>(found - values.begin());
    size_t count = 0;
    for (const uint32_t user : found->users) {
      const Graph::Node& node = g_.nodes()[user];
      const bool updates = graph::columns_of(node.op).family == Family::OPTIMIZER && node.inputs[0] == index;
      if (!updates) continue;
      stopped_[user] = true;
      ++count;
      out_.note(name, std::string(tenon::name(node.op)) + " " + base::quoted(called(g_, node)) + " left out",
                "stop_gradient");
    }
    if (count == 0) out_.note(name, what, "no optimizer node updates it", false);
  }

  // What `roots` need, without the nodes that are stopped.
  std::vector<bool> reach(std::vector<uint32_t> roots) const {
    std::vector<bool> out(g_.nodes().size());
    while (!roots.empty()) {
      const uint32_t node = roots.back();
      roots.pop_back();
      if (out[node]) continue;
      out[node] = true;
      for (const uint32_t index : g_.nodes()[node].inputs) {
        const uint32_t producer = index == TN_ABSENT ? TN_ABSENT : g_.values()[index].producer;
        if (producer != TN_ABSENT && !out[producer]) roots.push_back(producer);
      }
    }
    return out;
  }

  // Whether the node needs something that only a stopped node gives; such a node cannot stay.
  std::vector<bool> after_stopped() const {
    std::vector<bool> out = stopped_;
    for (uint32_t i = 0; i < out.size(); ++i) {
      for (const uint32_t index : g_.nodes()[i].inputs) {
        const uint32_t producer = index == TN_ABSENT ? TN_ABSENT : g_.values()[index].producer;
        if (producer != TN_ABSENT && out[producer]) out[i] = true;
      }
    }
    return out;
  }

  std::vector<bool> needed_nodes() const {
    const auto nodes = g_.nodes();
    std::vector<bool> gone = after_stopped();
    if (g_.outputs().empty()) {
      gone.flip();
      return gone;
    }
    std::vector<uint32_t> all, kept;
    for (const Graph::Output& output : g_.outputs()) {
      const uint32_t producer = g_.values()[output.value].producer;
      all.push_back(producer);
      if (!gone[producer]) kept.push_back(producer);
    }
    const std::vector<bool> before = reach(std::move(all));
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if (graph::columns_of(nodes[i].op).family != Family::COLLECTIVE || gone[i]) continue;
      const bool pair = nodes[i].op == Op::send || nodes[i].op == Op::recv;
      if (pair || !before[i]) kept.push_back(i);
    }
    return reach(std::move(kept));
  }

  // Parameters and constants that lost their last reader go too; inputs are what the caller binds.
  bool keeps(uint32_t leaf, const std::vector<bool>& needed) const {
    const Graph::ValueInfo& info = g_.values()[leaf];
    return info.role == Graph::Role::input || info.users.empty() ||
           std::any_of(info.users.begin(), info.users.end(), [&](uint32_t user) { return needed[user]; });
  }

  void leaf(uint32_t old, const std::vector<bool>& needed) {
    if (keeps(old, needed))
      out_.leaf(old);
    else
      out_.note(g_.values()[old].name, "left out", "nobody reads it any more");
  }

  void visit(uint32_t i, const std::vector<bool>& needed) {
    const Graph::Node& node = g_.nodes()[i];
    if (needed[i])
      out_.copy(node);
    else if (!stopped_[i])
      out_.note(called(g_, node), std::string(name(node.op)) + " left out", "no output needs it");
  }

  Rewriter& out_;
  const Graph& g_;
  const PruneOptions& options_;
  std::vector<bool> stopped_{};  // per node
};

}  // namespace

Result<Rewritten> prune(Rewritten work, const PruneOptions& options) {
  Rewriter out = TN_TRY(Rewriter::begin(std::move(work), "prune"));
  return Pruner(out, options).run();
}

}  // namespace tenon::passes
