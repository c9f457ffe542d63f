// SPDX-License-Identifier: Apache-2.0
// exchanges.cpp: groups before and behind the sums over ranks.
#include "plan/exchanges.hpp"

#include "base/text.hpp"
#include "fusion/names.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>
#include <tuple>

namespace tenon::plan_room {
namespace {

// What a value waits for: nothing, the sum of what group n - 1 makes and of all before it, or the inputs of with_sums, too.
using Wait = uint32_t;
constexpr Wait for_nothing = 0, for_all = UINT32_MAX;

class Splitter {
 public:
  Splitter(const Graph& graph, FusionCut& cut)
      : graph_(graph),
        cut_(cut),
        waits_(graph.values().size(), for_nothing),
        maker_(graph.values().size(), TN_ABSENT) {}

  Result<Exchanges> run(std::span<const std::string> with_sums) {
    for (const std::string& name : with_sums) {
      const auto values = graph_.values();
      const auto found =
          std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.name == name; });
      if (found == values.end() || found->role != Graph::Role::input)
        return Status(TN_INVALID,
                      "plan: with_sums names " + base::quoted(name) + ", which is no input of the graph");
      waits_[static_cast<size_t>(found - values.begin())] = for_all;
    }
    for (FusionGroup& group : cut_.groups) TN_TRY(sort(group));
    put_behind();
    note_reads();
    // Those of one launch in the graph's order: ranks whose groups differ take them alike.
    std::sort(out_.sums.begin(), out_.sums.end(), [](const auto& a, const auto& b) {
      return std::tie(a.after, a.sum) < std::tie(b.after, b.sum);
    });
    return std::move(out_);
  }

 private:
  struct Late {
    Wait wait = for_nothing;
    FusionGroup group{};
  };

  bool is_exchange(uint32_t node) const { return graph_.nodes()[node].op == Op::all_reduce; }

  Status sort(FusionGroup& group) {
    const auto found = std::find_if(group.nodes.begin(), group.nodes.end(),
                                    [&](uint32_t node) { return is_exchange(node); });
    if (found != group.nodes.end()) return take(group, *found);
    Wait wait = for_nothing;
    for (const uint32_t node : group.nodes) {
      for (const uint32_t value : graph_.nodes()[node].inputs)
        wait = std::max(wait, value != TN_ABSENT ? waits_[value] : for_nothing);
    }
    for (const uint32_t node : group.nodes) {
      for (const uint32_t value : graph_.nodes()[node].outputs) {
        if (value == TN_ABSENT) continue;
        waits_[value] = wait;
        maker_[value] = static_cast<uint32_t>(before_.size());  // meant where nothing is waited for
      }
    }
    if (wait == for_nothing)
      before_.push_back(std::move(group));
    else
      behind_.push_back({wait, std::move(group)});
    return {};
  }

  // Whoever needs a group waits for as much as it does, so the order stays one in which groups can run.
  void put_behind() {
    std::stable_sort(behind_.begin(), behind_.end(),
                     [](const Late& a, const Late& b) { return a.wait < b.wait; });
    out_.first_late = out_.first_with_all = static_cast<uint32_t>(before_.size());
    for (Late& late : behind_) {
      if (late.wait != for_all) ++out_.first_with_all;
      before_.push_back(std::move(late.group));
    }
    cut_.groups = std::move(before_);
  }

  void note_reads() {
    std::vector<uint32_t> group_of(graph_.nodes().size(), TN_ABSENT);
    for (uint32_t at = 0; at < cut_.groups.size(); ++at) {
      for (const uint32_t node : cut_.groups[at].nodes) group_of[node] = at;
    }
    out_.read.resize(cut_.groups.size());
    for (uint32_t i = 0; i < out_.all.size(); ++i) {
      for (const uint32_t user : graph_.values()[out_.all[i].sum].users) {
        if (group_of[user] == TN_ABSENT) continue;
        std::vector<uint32_t>& read = out_.read[group_of[user]];
        if (read.empty() || read.back() != i) read.push_back(i);
      }
    }
  }

  Status take(const FusionGroup& group, uint32_t node) {
    const uint32_t sent = graph_.nodes()[node].inputs[0], sum = graph_.nodes()[node].outputs[0];
    const auto refused = [&](const std::string& why) {
      return Status(TN_UNSUPPORTED, "plan: " + fusion::called(graph_, node) + ": " + why);
    };
    if (group.nodes.size() > 1)
      return refused("it is in a group of the device, which runs whole graphs only and has no ranks");
    if (std::get<std::string>(passes::attribute(graph_.nodes()[node], "reduce")) != "sum")
      return refused("only sums are taken between launches");
    if (graph_.values()[sent].role != Graph::Role::computed)
      return refused("'" + graph_.values()[sent].name + "' is a leaf, and only what a node makes is sent");
    if (waits_[sent] != for_nothing || maker_[sent] == TN_ABSENT)
      return refused("it needs another sum over ranks before it");
    for (const Graph::Output& output : graph_.outputs()) {
      if (output.value == sum)
        return refused("output '" + output.name + "' is its sum as it is: put an identity between them");
    }
    if (std::get<int64_t>(passes::attribute(graph_.nodes()[node], "comm")) != 0) return take_at_once(node);
    waits_[sum] = maker_[sent] + 1;
    out_.all.push_back({.sent = sent, .sum = sum, .after = maker_[sent]});
    return {};
  }

  // Its sum lies where what is sent lay, so nobody else may read that.
  Status take_at_once(uint32_t node) {
    const uint32_t sent = graph_.nodes()[node].inputs[0], sum = graph_.nodes()[node].outputs[0];
    const Graph::ValueInfo& info = graph_.values()[sent];
    const auto outputs = graph_.outputs();
    const bool goes_out =
        std::any_of(outputs.begin(), outputs.end(), [&](const auto& output) { return output.value == sent; });
    if (info.users.size() > 1 || goes_out)
      return Status(TN_UNSUPPORTED,
                    "plan: " + fusion::called(graph_, node) + ": '" + info.name +
                        "' is read by others, and its sum takes its place: send an identity of it");
    out_.sums.push_back({.sent = sent, .sum = sum, .after = maker_[sent], .dtype = info.spec.dtype});
    return {};
  }

  const Graph& graph_;
  FusionCut& cut_;
  std::vector<Wait> waits_;      // per value
  std::vector<uint32_t> maker_;  // per value: a group
  std::vector<FusionGroup> before_{};
  std::vector<Late> behind_{};
  Exchanges out_{};
};

}  // namespace

Result<Exchanges> take_out(const Graph& graph, FusionCut& cut, std::span<const std::string> with_sums) {
  return Splitter(graph, cut).run(with_sums);
}

}  // namespace tenon::plan_room
