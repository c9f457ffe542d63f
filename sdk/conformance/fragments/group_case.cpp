// SPDX-License-Identifier: Apache-2.0
// group_case.cpp: a case of level 2 from its first fragment to its verdict.
//
// Invariant: the case is a function of its random numbers, so the line that repeats it comes to the same smallest group.
#include "conformance/fragments/ask_group.hpp"

#include "conformance/ops/draw.hpp"

#include <algorithm>

namespace tenon::conform {

namespace {

constexpr unsigned shrink_attempts = 250;

// How many fragments, and about how many elements the larger values of each have: every fourth is large enough for more
// than one tile.
struct Effort {
  int fragments;
  uint64_t small, large;
};
Effort effort_of(const Context& t) { return t.quick() ? Effort{4, 300, 6'000} : Effort{32, 2'000, 60'000}; }

// Cuts groups while they fail.
class Cutting {
 public:
  Cutting(uint64_t budget, const DrawGroup& draw, const std::function<bool(const Group&)>& fails,
          unsigned attempts)
      : budget_(budget), draw_(draw), fails_(fails), left_(attempts) {}

  Group run(std::vector<uint64_t> list) {
    cut_down(list);
    list = lower(std::move(list), left_ / 2);
    // With smaller shapes and simpler ops fewer nodes may do, and the other way round.
    cut_down(list);
    list = lower(std::move(list), left_);
    return *made(list);
  }

 private:
  // The group of a list, with the cuts so far.
  std::optional<Group> made(const std::vector<uint64_t>& list) const {
    Choices choices(list);
    std::optional<Group> out = draw_(choices, budget_);
    for (const Cut& by : cuts_) {
      if (out) out = cut(*out, by);
    }
    return out;
  }
  bool fails(const Group& group) {
    if (left_ == 0) return false;
    --left_;
    return fails_(group);
  }
  std::vector<uint64_t> lower(std::vector<uint64_t> list, unsigned attempts) {
    const auto still = [&](const std::vector<uint64_t>& candidate) {
      const std::optional<Group> group = made(candidate);
      return group && group->nodes.size() <= most_nodes_ && fails(*group);
    };
    return shrink(std::move(list), still, attempts);
  }
  bool accept(Group& best, const Cut& by) {
    std::optional<Group> candidate = cut(best, by);
    if (!candidate || !fails(*candidate)) return false;
    cuts_.push_back(by);
    best = *std::move(candidate);
    return true;
  }
  // Nothing behind the first result that is wrong by itself; then every node that can be missed.
  void cut_down(const std::vector<uint64_t>& list) {
    Group best = *made(list);
    for (uint32_t at = 0; at < best.nodes.size(); ++at) {
      if (accept(best, {Cut::Kind::result, at})) break;
    }
    for (auto at = static_cast<uint32_t>(best.nodes.size()); at-- > 0;) accept(best, {Cut::Kind::node, at});
    most_nodes_ = best.nodes.size();
  }

  uint64_t budget_;
  const DrawGroup& draw_;
  const std::function<bool(const Group&)>& fails_;
  unsigned left_;
  std::vector<Cut> cuts_{};
  size_t most_nodes_ = SIZE_MAX;  // lower shapes are not bought with nodes
};

}  // namespace

Group simplest(const std::vector<uint64_t>& failing, uint64_t budget, const DrawGroup& draw,
               const std::function<bool(const Group&)>& fails, unsigned attempts) {
  return Cutting(budget, draw, fails, attempts).run(failing);
}

void Tally::count(const GroupAnswer& answer) {
  if (answer.kind == GroupAnswer::Kind::refused && refused++ == 0) reason = answer.story;
  if (answer.kind == GroupAnswer::Kind::agreed) ++agreed;
  if (remark.empty()) remark = answer.remark;
  eased += answer.eased;
}

namespace {
// Before what was asked for counts as refused: it may have been the company.
constexpr int refusals_at_least = 16;
}  // namespace

Result<Tally> run_groups(Context& t, const Device& device, const DrawGroup& draw, int times) {
  Effort effort = effort_of(t);
  effort.fragments *= times;
  Tally tally;
  const int refusals = std::max(effort.fragments, refusals_at_least);
  const auto draws = [&] {
    return tally.agreed == 0 ? std::max(4 * effort.fragments, refusals) : 4 * effort.fragments;
  };
  for (int i = 0; tally.agreed < effort.fragments && i < draws(); ++i) {
    if (tally.agreed == 0 && tally.refused >= refusals) break;
    const uint64_t budget = i % 4 == 3 ? effort.large : effort.small;
    Choices choices(t.random());
    const std::optional<Group> group = draw(choices, budget);
    if (!group) continue;
    const GroupAnswer answer = ask(t, device, *group);
    tally.count(answer);
    t.check(true);
    if (answer.kind != GroupAnswer::Kind::failed) continue;
    std::string story = answer.story;
    const auto fails = [&](const Group& smaller) {
      const GroupAnswer again = ask(t, device, smaller);
      if (again.kind == GroupAnswer::Kind::failed) story = again.story;
      return again.kind == GroupAnswer::Kind::failed;
    };
    const Group least = simplest(choices.made(), budget, draw, fails, shrink_attempts);
    TN_TRY(t.require(false, told(least), ", numbers of seed ", least.value_seed,
                     least.specials ? " with NaN and infinities" : "", ": ", story));
  }
  return tally;
}

void tell(Context& t, const Tally& tally) {
  if (!tally.remark.empty()) t.warn(tally.remark);
  if (tally.eased > 0)
    t.ease(words(tally.eased, tally.eased == 1 ? " element needs" : " elements need",
                 " a tolerance that the vendor declares for an op of its fragment"));
  if (tally.agreed > 0 && tally.refused > 0)
    t.warn(
        words("refuses ", tally.refused, " of ", tally.agreed + tally.refused, " fragments: ", tally.reason));
}

namespace {

constexpr int forms_alone = 16;  // asked about before an op counts as refused

Result<bool> refused_alone(Context& t, const Device& device, const Subject& part) {
  for (int i = 0; i < forms_alone; ++i) {
    Choices choices(t.random());
    const Trial trial = draw_trial(*part.row, part.dtype, Form::dense, 60, choices);
    const OneNode node(trial);
    if (TN_TRY(supports(t, device, node.fragment())).verdict != TN_SUPPORT_NO) return false;
  }
  return true;
}

// The name of a published fusion that has the op; empty where there is none.
Result<std::string> fusion_with(Context& t, const Device& device, uint32_t op) {
  const tn_kernel_api& api = device.api().kernel;
  tn_pattern_list list{};
  if (api.patterns == nullptr) return std::string();
  TN_TRY(t.call("kernel.patterns", [&](tn_error* e) { return api.patterns(device.handle(), &list, e); }));
  for (uint64_t i = 0; i < list.count; ++i) {
    const tn_pattern& pattern = list.items[i];
    for (const tn_pattern_step& step : std::span(pattern.steps, pattern.step_count))
      if (std::ranges::count(std::span(step.ops, step.op_count), op) != 0) return std::string(pattern.name);
  }
  return std::string();
}

}  // namespace

Status run_group_case(Context& t, const std::string& tag, const DrawGroup& draw, int times,
                      const std::vector<Subject>& parts) {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  const Tally tally = TN_TRY(run_groups(t, device, draw, times));
  tell(t, tally);
  for (const Subject& part : parts) {
    if (tally.agreed > 0 || !TN_TRY(refused_alone(t, device, part))) continue;
    return t.unsupported(words("op.", part.row->name, ".", author::dtype_name(part.dtype)), tally.lack());
  }
  if (tally.agreed == 0 && parts.size() == 1) {
    const std::string fusion = TN_TRY(fusion_with(t, device, parts.front().row->op));
    if (!fusion.empty())
      return t.skip(words("no company that was drawn is taken; it is fused as published, in '", fusion,
                          "', which the cases of patterns try: ", tally.lack()));
  }
  return t.needs(tally.agreed > 0, tag, tally.lack());
}

}  // namespace tenon::conform
