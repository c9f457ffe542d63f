// SPDX-License-Identifier: Apache-2.0
// plan.cpp: from a graph to launches: cut, compile, cut again where the device refuses, lay out memory.
#include "plan/layout.hpp"
#include "plan/state.hpp"

#include <algorithm>
#include <map>

namespace tenon {
namespace {

using State = Plan::State;

class Planner {
 public:
  Planner(const Graph& graph, Device& device, const PlanOptions& options)
      : options_(options), state_(std::make_shared<State>(State{.graph = graph, .device = device})) {}

  Result<std::shared_ptr<const State>> run() {
    state_->target = TN_TRY(fusion_target(state_->device));
    ask_ = state_->target.supports;
    state_->target.supports = [this](const Fragment& fragment) { return supports(fragment); };
    TN_TRY(compile());
    state_->target.supports = ask_;
    TN_TRY(name_all());
    place_all();
    return std::shared_ptr<const State>(std::move(state_));
  }

 private:
  // The device's answer, unless it has refused to compile this very fragment.
  Result<Support> supports(const Fragment& fragment) {
    const auto refused = refused_.find(fragment.identity());
    if (refused == refused_.end()) return ask_(fragment);
    return Support{.verdict = Verdict::no, .reason = "not compiled: " + refused->second};
  }

  // Cuts and compiles until every fragment has a kernel. Each round but the last learns of one more refusal.
  Status compile() {
    for (;;) {
      state_->cut = TN_TRY(fuse(state_->graph, state_->target, options_.fusion));
      state_->launches.clear();
      pieces_.clear();
      bool again = false;
      for (const FusionGroup& group : state_->cut.groups) {
        again = TN_TRY(compile(group));
        if (again) break;
      }
      if (!again) return {};
    }
  }

  // One group; true when the graph has to be cut again.
  Result<bool> compile(const FusionGroup& group) {
    Graph::Piece piece = TN_TRY(state_->graph.fragment(group.nodes));
    auto compiled = group.support.verdict == Verdict::no
                        ? Result<Kernel>(Status(TN_UNSUPPORTED, group.support.reason))
                        : state_->device.compile(piece.fragment, options_.compile);
    if (compiled.ok()) {
      state_->launches.push_back({.kernel = std::move(compiled).take()});
      pieces_.push_back(std::move(piece));
      return false;
    }
    if (compiled.code() != TN_UNSUPPORTED) return std::move(compiled).failure();
    const std::string reason(compiled.message());
    const bool alone = group.nodes.size() == 1;
    if (alone || state_->target.whole_graph || group.rule == "must_fuse") {
      return Status(TN_UNSUPPORTED, state_->device.name() + " does not run " + words(group) + ": " + reason);
    }
    state_->recuts.push_back(words(group) + ": " + reason);
    refused_.emplace(piece.fragment.identity(), reason);
    return true;
  }

  std::string words(const FusionGroup& group) const {
    if (group.nodes.size() > 1)
      return "a group of " + std::to_string(group.nodes.size()) + " nodes ('" + group.rule + "')";
    const Graph::Node& node = state_->graph.nodes()[group.nodes.front()];
    const uint32_t made = node.outputs.empty() ? TN_ABSENT : node.outputs.front();
    return std::string(name(node.op)) +
           (made == TN_ABSENT ? "" : " '" + state_->graph.values()[made].name + "'");
  }

  uint32_t bind(const std::string& name, uint64_t bytes) {
    const auto number = static_cast<uint32_t>(state_->bound.size());
    state_->bound.push_back({.name = name, .bytes = bytes});
    state_->names.emplace(name, number);
    return number;
  }

  // Numbers what the caller binds: leaves, then outputs.
  Status name_all() {
    const auto values = state_->graph.values();
    bound_.assign(values.size(), State::in_block);
    for (uint32_t i = 0; i < values.size(); ++i) {
      if (values[i].role == Graph::Role::input || values[i].role == Graph::Role::param)
        bound_[i] = bind(values[i].name, values[i].spec.bytes());
    }
    for (const Graph::Output& output : state_->graph.outputs()) {
      if (state_->names.contains(output.name))
        return Status(TN_INVALID, "plan: output '" + output.name +
                                      "' is called as an input is: a run could not tell them apart");
      bound_[output.value] = bind(output.name, values[output.value].spec.bytes());
    }
    return {};
  }

  // Every value between launches, and every workspace, as a life; then a place for each.
  void place_all() {
    std::map<uint32_t, uint32_t> last_use;  // value → launch
    for (uint32_t at = 0; at < pieces_.size(); ++at) {
      for (const uint32_t value : pieces_[at].inputs) last_use[value] = at;
    }
    std::vector<plan_room::Life> lives;
    std::map<uint32_t, size_t> life_of;  // value → life
    std::vector<size_t> workspace_life;
    for (uint32_t at = 0; at < pieces_.size(); ++at) {
      for (const uint32_t value : pieces_[at].outputs) {
        if (bound_[value] != State::in_block) continue;
        const auto used = last_use.find(value);
        life_of[value] = lives.size();
        lives.push_back(
            {state_->graph.values()[value].spec.bytes(), at, used == last_use.end() ? at : used->second});
      }
      workspace_life.push_back(lives.size());
      lives.push_back({state_->launches[at].kernel.workspace_bytes(), at, at});
    }
    const uint64_t alignment = std::max<uint64_t>(state_->device.limits().alignment, TN_MEMORY_ALIGNMENT);
    const plan_room::Layout layout = plan_room::lay_out(lives, alignment);
    state_->block_bytes = layout.bytes;
    state_->bytes_without_reuse = layout.bytes_without_reuse;
    for (uint32_t at = 0; at < pieces_.size(); ++at) {
      State::Launch& launch = state_->launches[at];
      for (const auto* list : {&pieces_[at].inputs, &pieces_[at].outputs}) {
        for (const uint32_t value : *list) {
          const uint64_t bytes = state_->graph.values()[value].spec.bytes();
          const bool held = bound_[value] == State::in_block;
          launch.slots.push_back({bound_[value], held ? layout.places[life_of.at(value)] : 0, bytes});
        }
      }
      const size_t life = workspace_life[at];
      launch.workspace = {State::in_block, layout.places[life], lives[life].bytes};
      state_->most_slots = std::max(state_->most_slots, launch.slots.size());
    }
  }

  const PlanOptions& options_;
  std::shared_ptr<State> state_;
  std::function<Result<Support>(const Fragment&)> ask_{};
  std::map<Identity, std::string> refused_{};
  std::vector<Graph::Piece> pieces_{};
  std::vector<uint32_t> bound_{};  // per value: its number among what the caller binds
};

}  // namespace

Result<Plan> plan(const Graph& graph, Device& device, const PlanOptions& options) {
  return Plan(TN_TRY(Planner(graph, device, options).run()));
}

}  // namespace tenon
