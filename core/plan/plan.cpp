// SPDX-License-Identifier: Apache-2.0
// plan.cpp: from a graph to launches: cut, compile, cut again where the device refuses, lay out memory.
#include "base/text.hpp"
#include "graph/columns.hpp"
#include "plan/exchanges.hpp"
#include "plan/layout.hpp"
#include "plan/lying.hpp"
#include "plan/state.hpp"

#include <algorithm>
#include <map>

namespace tenon {
namespace {

using State = Plan::State;

class Planner {
 public:
  Planner(const Graph& graph, plan_room::Lying lying, Device& device, const PlanOptions& options)
      : options_(options),
        lying_(std::move(lying)),
        state_(std::make_shared<State>(State{.graph = graph, .device = device})) {}

  Result<std::shared_ptr<const State>> run() {
    state_->target = TN_TRY(fusion_target(state_->device));
    ask_ = state_->target.supports;
    state_->target.supports = [this](const Fragment& fragment) { return supports(fragment); };
    TN_TRY(compile());
    state_->target.supports = ask_;
    TN_TRY(name_all());
    name_launches();
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
      plan_room::Exchanges exchanges =
          TN_TRY(plan_room::take_out(state_->graph, state_->cut, options_.with_sums));
      state_->exchanges = std::move(exchanges.all);
      state_->sums = std::move(exchanges.sums);
      state_->first_late = exchanges.first_late;
      state_->first_with_all = exchanges.first_with_all;
      state_->launches.clear();
      state_->apart.clear();
      state_->views = 0;
      pieces_.clear();
      find_last_readers();
      bool again = false;
      for (uint32_t at = 0; at < state_->cut.groups.size(); ++at) {
        again = TN_TRY(compile(state_->cut.groups[at], at));
        if (again) break;
        state_->launches.back().sums = std::move(exchanges.read[at]);
      }
      if (!again) {
        count_copies();
        return {};
      }
    }
  }

  // A reshape that the cut took for a view, and that is a launch here after all: of values that lie otherwise, or that ranks sum.
  void count_copies() {
    FusionCut& cut = state_->cut;
    for (FusionGroup& group : cut.groups) {
      const Graph::Node& node = state_->graph.nodes()[group.nodes.front()];
      if (group.nodes.size() > 1 || node.op != Op::reshape || group.bytes != 0 || is_view(group)) continue;
      group.bytes = 2 * state_->graph.values()[node.outputs.front()].spec.bytes();
      group.cost_ns =
          state_->target.launch_ns + static_cast<double>(group.bytes) / state_->target.bytes_per_ns;
      --cut.views;
      cut.bytes_before += group.bytes;
      cut.bytes_after += group.bytes;
      cut.cost_before_ns += group.cost_ns;
      cut.cost_after_ns += group.cost_ns;
    }
  }

  // Whether a group only gives what lies between launches another shape: then both are in one place, and nothing runs.
  bool is_view(const FusionGroup& group) const {
    const Graph::Node& node = state_->graph.nodes()[group.nodes.front()];
    if (group.nodes.size() > 1 || node.op != Op::reshape) return false;
    const uint32_t from = node.inputs.front(), to = node.outputs.front();
    const auto between = [&](uint32_t value) {
      const bool computed = state_->graph.values()[value].role == Graph::Role::computed;
      return computed && !is_output(value) && lying_.strides(value).empty() && !is_exchanged(value);
    };
    return between(from) && between(to);
  }

  // Which values are views of which, and which launch is the last to read each: whoever reads a view reads what it is of.
  void find_last_readers() {
    const size_t count = state_->graph.values().size();
    last_reader_.assign(count, TN_ABSENT);
    seen_as_.assign(count, TN_ABSENT);
    is_seen_.assign(count, false);
    for (uint32_t at = 0; at < state_->cut.groups.size(); ++at) {
      const FusionGroup& group = state_->cut.groups[at];
      if (is_view(group)) {
        const Graph::Node& node = state_->graph.nodes()[group.nodes.front()];
        seen_as_[node.outputs.front()] = root_of(node.inputs.front());
        is_seen_[root_of(node.inputs.front())] = true;
      }
      for (const uint32_t node : group.nodes) {
        for (const uint32_t value : state_->graph.nodes()[node].inputs) {
          if (value != TN_ABSENT) last_reader_[root_of(value)] = at;
        }
      }
    }
  }

  uint32_t root_of(uint32_t value) const { return seen_as_[value] != TN_ABSENT ? seen_as_[value] : value; }

  bool is_output(uint32_t value) const {
    const auto outputs = state_->graph.outputs();
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const Graph::Output& output) { return output.value == value; });
  }

  // Why launch `at` must not write one value over the other, whatever passes said; "" when it may. What lies between launches
  // is over what lies there, and a new parameter over the old one: that is the caller's to bind.
  std::string hazard(uint32_t made, uint32_t over, uint32_t at) const {
    const Graph::ValueInfo &to = state_->graph.values()[made], &from = state_->graph.values()[over];
    const std::string called = base::quoted(from.name, 64);
    if (is_seen_[over] || seen_as_[over] != TN_ABSENT) return called + " is seen in another shape as well";
    if (from.role == Graph::Role::input) return called + " is an input, which belongs to the caller";
    if (last_reader_[over] != at)
      return called + " is read again by launch " + std::to_string(last_reader_[over]);
    if (is_output(over)) return called + " is an output, which has to last";
    if (is_summed_at_once(made) || is_summed_at_once(over)) return "ranks sum it where it lies";
    if (from.role == Graph::Role::param && !is_output(made)) return "the new " + called + " is no output";
    if (from.role == Graph::Role::computed && is_output(made))
      return "the caller binds it, and not " + called;
    const bool same = from.spec.dtype == to.spec.dtype && from.spec.elements() == to.spec.elements() &&
                      lying_.strides(made) == lying_.strides(over);
    return same ? "" : called + " has another type or size, or lies otherwise";
  }

  bool is_summed_at_once(uint32_t value) const {
    const auto& sums = state_->sums;
    return std::any_of(sums.begin(), sums.end(),
                       [&](const State::Sum& s) { return s.sent == value || s.sum == value; });
  }

  // Whether ranks sum it, or it is such a sum.
  bool is_exchanged(uint32_t value) const {
    const auto has = [&](const auto& sum) { return sum.sent == value || sum.sum == value; };
    return is_summed_at_once(value) || std::any_of(state_->exchanges.begin(), state_->exchanges.end(), has);
  }

  void tell_apart(uint32_t made, uint32_t over, const std::string& why) {
    const auto name = [&](uint32_t value) { return base::quoted(state_->graph.values()[value].name, 64); };
    state_->apart.push_back(name(made) + " over " + name(over) + ": " + why);
  }

  // The pairs of bindings that passes would have in one place, and that may be.
  std::vector<tn_alias> wanted_in_place(const Graph::Piece& piece, uint32_t at) {
    std::vector<tn_alias> out;
    for (uint32_t output = 0; output < piece.outputs.size(); ++output) {
      const uint32_t made = piece.outputs[output], over = lying_.over(state_->graph, piece, made);
      if (over == TN_ABSENT) continue;
      const auto input = static_cast<uint32_t>(std::find(piece.inputs.begin(), piece.inputs.end(), over) -
                                               piece.inputs.begin());
      const bool taken =
          std::any_of(out.begin(), out.end(), [&](const tn_alias& a) { return a.input == input; });
      const std::string why = taken ? "another output lies there" : hazard(made, over, at);
      if (why.empty())
        out.push_back({.input = input, .output = output});
      else
        tell_apart(made, over, why);
    }
    return out;
  }

  // The piece as passes would have it: its bindings where they lie, and declared in place what the device writes so.
  Result<Fragment> lie(const FusionGroup& group, const Graph::Piece& piece, uint32_t at,
                       std::vector<tn_alias>& aliases) {
    if (lying_.empty()) return piece.fragment;
    aliases = wanted_in_place(piece, at);
    for (size_t patience = 1;; patience *= 2) {
      Fragment asked = TN_TRY(lying_.fragment(state_->graph, group.nodes, piece, aliases));
      if (aliases.empty()) return asked;
      if (keep_honoured(TN_TRY(state_->device.supports(asked)), piece, patience, aliases)) return asked;
    }
  }

  // Takes out the pairs that the answer does not honour; true when there are none. Past the first 64 it ends at one that is
  // refused, and those after it are asked about once more; but each time twice as many are given up with that one, so that a
  // device that refuses many, or never heard of so many, is asked a few times.
  bool keep_honoured(const Support& support, const Graph::Piece& piece, size_t patience,
                     std::vector<tn_alias>& aliases) {
    const size_t honoured = 64 + std::min<uint64_t>(support.aliases_beyond, aliases.size());
    const size_t known = std::min(aliases.size(), honoured + patience);
    std::vector<tn_alias> kept;
    for (size_t i = 0; i < aliases.size(); ++i) {
      if (i >= known || support.honours(i))
        kept.push_back(aliases[i]);
      else
        tell_apart(piece.outputs[aliases[i].output], piece.inputs[aliases[i].input],
                   state_->device.name() + " does not write it in place there");
    }
    std::swap(aliases, kept);
    return aliases.size() == kept.size();
  }

  // One group; true when the graph has to be cut again.
  Result<bool> compile(const FusionGroup& group, uint32_t at) {
    Graph::Piece piece = TN_TRY(state_->graph.fragment(group.nodes));
    if (!piece.outputs.empty() && seen_as_[piece.outputs.front()] != TN_ABSENT) {
      state_->launches.emplace_back();
      pieces_.push_back({std::move(piece), {}});
      ++state_->views;
      return false;
    }
    std::vector<tn_alias> aliases;
    const Fragment fragment = TN_TRY(lie(group, piece, at, aliases));
    auto compiled = group.support.verdict == Verdict::no
                        ? Result<Kernel>(Status(TN_UNSUPPORTED, group.support.reason))
                        : state_->device.compile(fragment, options_.compile);
    if (compiled.ok()) {
      state_->launches.push_back({.kernel = std::move(compiled).take()});
      pieces_.push_back({std::move(piece), std::move(aliases)});
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

  uint32_t bind(const std::string& name, const TensorSpec& spec, bool is_output) {
    const auto number = static_cast<uint32_t>(state_->bound.size());
    state_->bound.push_back(
        {.name = name, .bytes = spec.bytes(), .dtype = spec.dtype, .is_output = is_output});
    state_->names.emplace(name, number);
    return number;
  }

  // Numbers what the caller binds: leaves, then outputs, which a graph gives no common names.
  Status name_all() {
    const auto values = state_->graph.values();
    bound_.assign(values.size(), State::in_block);
    for (uint32_t i = 0; i < values.size(); ++i) {
      if (values[i].role == Graph::Role::input || values[i].role == Graph::Role::param)
        bound_[i] = bind(values[i].name, values[i].spec, false);
    }
    for (const Graph::Output& output : state_->graph.outputs())
      bound_[output.value] = bind(output.name, values[output.value].spec, true);
    return bind_exchanges();
  }

  // A sum has its place from the caller, and what is sent is made there, when nobody else wants it.
  Status bind_exchanges() {
    for (State::Exchange& exchange : state_->exchanges) {
      const Graph::ValueInfo& sent = state_->graph.values()[exchange.sent];
      if (lying_.strides(exchange.sent) != lying_.strides(exchange.sum))
        return Status(TN_UNSUPPORTED, "plan: " + base::quoted(sent.name, 64) +
                                          " is sent in another memory order than its sum is wanted in");
      exchange.bound = static_cast<uint32_t>(state_->bound.size());
      state_->bound.push_back(
          {.name = state_->graph.values()[exchange.sum].name, .bytes = sent.spec.bytes()});
      bound_[exchange.sum] = exchange.bound;
      const bool is_only_sent = sent.users.size() == 1 && bound_[exchange.sent] == State::in_block;
      if (is_only_sent) bound_[exchange.sent] = exchange.bound;
    }
    return {};
  }

  // Launches stand as groups do.
  void name_launches() {
    const auto nodes = state_->graph.nodes();
    for (size_t at = 0; at < state_->launches.size(); ++at) {
      const FusionGroup& group = state_->cut.groups[at];
      State::Launch& launch = state_->launches[at];
      const Graph::Node& last = nodes[group.nodes.back()];
      launch.name = group.nodes.size() == 1 ? std::string(name(last.op)) : group.rule;
      const auto made = std::find_if(last.outputs.begin(), last.outputs.end(),
                                     [](uint32_t value) { return value != TN_ABSENT; });
      if (made != last.outputs.end()) launch.name += " " + state_->graph.values()[*made].name;
      launch.bytes = group.bytes;
      const bool moves = std::all_of(group.nodes.begin(), group.nodes.end(), [&](uint32_t node) {
        return graph::columns_of(nodes[node].op).family == graph::Family::MOVEMENT;
      });
      if (moves) launch.kind = TraceKind::copy;
    }
  }

  // Every value between launches, and every workspace, as a life; then a place for each. A value in place goes on with the
  // life of what it is written over.
  void place_all() {
    place_before_sent();
    std::vector<plan_room::Life> lives;
    std::map<uint32_t, size_t> life_of;  // value → life
    std::vector<size_t> workspace_life;
    for (uint32_t at = 0; at < pieces_.size(); ++at) {
      const auto& [piece, aliases] = pieces_[at];
      for (const tn_alias& alias : aliases) go_on(piece, alias, life_of);
      for (const uint32_t value : piece.outputs) {
        if (seen_as_[value] != TN_ABSENT) see(value, life_of);
        if (bound_[value] != State::in_block || seen_as_[value] != TN_ABSENT) continue;
        const uint32_t last = last_reader_[value] == TN_ABSENT ? at : last_reader_[value];
        const auto [found, fresh] = life_of.emplace(value, lives.size());
        if (fresh)
          lives.push_back({state_->graph.values()[value].spec.bytes(), at, last});
        else
          lives[found->second].to = std::max(lives[found->second].to, last);
      }
      for (const State::Sum& sum : state_->sums) {
        if (sum.after == at) share_life(sum, lives, life_of);
      }
      workspace_life.push_back(lives.size());
      const Kernel& kernel = state_->launches[at].kernel;
      lives.push_back({kernel ? kernel.workspace_bytes() : 0, at, at});
    }
    const uint64_t alignment = std::max<uint64_t>(state_->device.limits().alignment, TN_MEMORY_ALIGNMENT);
    const plan_room::Layout layout = plan_room::lay_out(lives, alignment);
    state_->block_bytes = layout.bytes;
    state_->bytes_without_reuse = layout.bytes_without_reuse;
    for (uint32_t at = 0; at < pieces_.size(); ++at) {
      State::Launch& launch = state_->launches[at];
      const Graph::Piece& piece = pieces_[at].piece;
      for (const auto* list : {&piece.inputs, &piece.outputs}) {
        for (const uint32_t value : *list) {
          launch.slots.push_back(slot_of(value, layout, life_of));
        }
      }
      const size_t life = workspace_life[at];
      launch.workspace = {State::in_block, layout.places[life], lives[life].bytes};
      state_->most_slots = std::max(state_->most_slots, launch.slots.size());
    }
    for (State::Exchange& exchange : state_->exchanges)
      exchange.from = slot_of(exchange.sent, layout, life_of);
    for (State::Sum& sum : state_->sums) sum.at = slot_of(sum.sent, layout, life_of);
  }

  // A view is where what it is of is, which lives as long as views of it are read.
  void see(uint32_t view, std::map<uint32_t, size_t>& life_of) {
    const uint32_t root = seen_as_[view];
    if (bound_[root] == State::in_block)
      life_of.emplace(view, life_of.at(root));
    else
      bound_[view] = bound_[root];
  }

  // A sum goes on with the life of what was sent.
  void share_life(const State::Sum& sum, std::vector<plan_room::Life>& lives,
                  std::map<uint32_t, size_t>& life_of) const {
    const size_t life = life_of.at(sum.sent);
    life_of.emplace(sum.sum, life);
    if (last_reader_[sum.sum] != TN_ABSENT) lives[life].to = std::max(lives[life].to, last_reader_[sum.sum]);
  }

  State::Slot slot_of(uint32_t value, const plan_room::Layout& layout,
                      const std::map<uint32_t, size_t>& life_of) const {
    const bool held = bound_[value] == State::in_block;
    return {bound_[value], held ? layout.places[life_of.at(value)] : 0,
            state_->graph.values()[value].spec.bytes()};
  }

  // Whether a value lies where a sum over ranks does. Those are numbered last.
  bool is_summed(uint32_t value) const {
    return !state_->exchanges.empty() && bound_[value] != State::in_block &&
           bound_[value] >= state_->exchanges.front().bound;
  }

  // What is sent may be written over something, which then has its place from the start.
  void place_before_sent() {
    for (auto placed = pieces_.rbegin(); placed != pieces_.rend(); ++placed) {
      for (const tn_alias& alias : placed->aliases) {
        const uint32_t made = placed->piece.outputs[alias.output], over = placed->piece.inputs[alias.input];
        if (is_summed(made) && bound_[over] == State::in_block) bound_[over] = bound_[made];
      }
    }
  }

  void go_on(const Graph::Piece& piece, const tn_alias& alias, std::map<uint32_t, size_t>& life_of) {
    const uint32_t made = piece.outputs[alias.output], over = piece.inputs[alias.input];
    if (bound_[over] == State::in_block) {
      life_of.emplace(made, life_of.at(over));
      ++state_->in_place;
    } else if (is_summed(over)) {
      bound_[made] = bound_[over];
      ++state_->in_place;
    } else {
      state_->bound[bound_[made]].renews = bound_[over];
      state_->renewals.push_back({state_->bound[bound_[made]].name, state_->bound[bound_[over]].name});
    }
  }

  struct Placed {
    Graph::Piece piece;
    std::vector<tn_alias> aliases;  // in place
  };

  const PlanOptions& options_;
  plan_room::Lying lying_;
  std::shared_ptr<State> state_;
  std::function<Result<Support>(const Fragment&)> ask_{};
  std::map<Identity, std::string> refused_{};
  std::vector<Placed> pieces_{};
  std::vector<uint32_t> last_reader_{};  // per value: a launch
  std::vector<uint32_t> seen_as_{};      // per value: what it is a view of, or TN_ABSENT
  std::vector<bool> is_seen_{};          // per value: whether something is a view of it
  std::vector<uint32_t> bound_{};        // per value: its number among what the caller binds
};

}  // namespace

Result<Plan> plan(const Graph& graph, Device& device, const PlanOptions& options) {
  return Plan(TN_TRY(Planner(graph, {}, device, options).run()));
}

Result<Plan> plan(const passes::Rewritten& work, Device& device, const PlanOptions& options) {
  auto lying = TN_TRY(plan_room::Lying::of(work));
  return Plan(TN_TRY(Planner(work.graph, std::move(lying), device, options).run()));
}

}  // namespace tenon
