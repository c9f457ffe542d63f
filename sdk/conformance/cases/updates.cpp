// SPDX-License-Identifier: Apache-2.0
// updates.cpp: level 2, the updates of many parameters as one fragment.
//
// Invariant: which operand is what comes from the table of meanings; an optimizer added to it has its cases.
#include "conformance/case.hpp"
#include "conformance/fragments/ask_group.hpp"
#include "conformance/fragments/draw_group.hpp"
#include "conformance/ops/draw.hpp"

#include <algorithm>
#include <map>
#include <sstream>

namespace tenon::conform {

namespace {

// Operands of a row that are scalars of the step, by their word: "rate", "flag", "count".
std::map<size_t, std::string> scalars_of(const Row& row) {
  std::istringstream list(meaning_of(row).operands);
  std::map<size_t, std::string> out;
  size_t at = 0;
  for (std::string word; list >> word && word != "->"; ++at) {
    const std::string name = word.substr(0, word.find('?'));
    if (name == "rate" || name == "flag" || name == "count") out[at] = name;
  }
  return out;
}

const Row& family_row(Family family, bool many) {
  return *std::find_if(std::begin(op_rows), std::end(op_rows), [&](const Row& row) {
    return row.family == family && (row.outputs == TN_OP_MANY) == many;
  });
}

// One step of training: parameters of several types and shapes, each with its own node, the step's scalars shared.
class Updates {
 public:
  Updates(const Row& row, bool scaled, size_t count, uint64_t budget, Choices& choices)
      : row_(row), scalars_(scalars_of(row)), scaled_(scaled), choices_(choices) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t dtype =
          choices.pick<uint32_t>({TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f16});
      trials_.push_back(draw_trial(row, dtype, Form::dense, std::max<uint64_t>(budget / count, 1), choices));
      // Numbers of one fragment; one of the optional operands for all, as a step has it.
      for (Operand& input : trials_.back().inputs) input.repeats_first = false;
    }
  }

  Group run(bool in_place) {
    if (scaled_) unscale();
    for (size_t i = 0; i < trials_.size(); ++i) update(i);
    if (scaled_ && choices_.chance(2)) adapt_scale();
    finish_group(group_, choices_, false, 0);
    if (in_place) pair_in_place(group_);
    group_.value_seed = choices_.below(UINT64_MAX);
    return std::move(group_);
  }

 private:
  // Each gradient divided by the loss scale, and whether all of them were finite.
  void unscale() {
    const Row& row = family_row(Family::SCALING, true);
    GroupNode node{.row = &row, .subject = trials_[0].inputs[1].dtype};
    scale_ = group_.add_input({.dtype = TN_DTYPE_f32, .dims = {}, .values = Values::positive});
    found_ = group_.add({.dtype = TN_DTYPE_f32, .dims = {}});
    node.in = {scale_};
    node.out = {found_};
    for (const Trial& trial : trials_) {
      Operand gradient = trial.inputs[1];
      gradient.values = Values::moderate;
      node.in.push_back(group_.add_input(gradient));
      node.out.push_back(group_.add({.dtype = gradient.dtype, .dims = gradient.dims}));
    }
    unscaled_.assign(node.out.begin() + 1, node.out.end());
    group_.outputs.push_back(found_);
    group_.nodes.push_back(std::move(node));
  }

  uint32_t operand(size_t i, size_t at) {
    const Operand& drawn = trials_[i].inputs[at];
    const auto scalar = scalars_.find(at);
    if (scaled_ && at == 1) return unscaled_[i];
    if (scaled_ && scalar != scalars_.end() && scalar->second == "flag") return found_;
    // The gradients are unscaled already.
    if (scaled_ && scalar != scalars_.end() && at > flag_at()) return TN_ABSENT;
    if (drawn.absent) return TN_ABSENT;
    if (scalar == scalars_.end()) return group_.add_input(drawn);
    const auto known = shared_.find(at);
    return known != shared_.end() ? known->second : shared_[at] = group_.add_input(drawn);
  }
  size_t flag_at() const {
    for (const auto& [at, word] : scalars_) {
      if (word == "flag") return at;
    }
    return SIZE_MAX;
  }

  void update(size_t i) {
    const Trial& trial = trials_[i];
    GroupNode node{.row = &row_, .subject = trial.subject};
    node.attributes = trial.attributes;
    for (size_t at = 0; at < trial.inputs.size(); ++at) node.in.push_back(operand(i, at));
    for (const Operand& output : trial.outputs)
      node.out.push_back(output.absent ? TN_ABSENT : group_.add(output));
    group_.nodes.push_back(std::move(node));
  }

  // The loss scale goes on from what was found.
  void adapt_scale() {
    const Row& row = family_row(Family::SCALING, false);
    Trial trial = draw_trial(row, TN_DTYPE_f32, Form::dense, 1, choices_);
    GroupNode node{.row = &row, .subject = TN_DTYPE_f32};
    node.attributes = trial.attributes;
    node.in = {found_, scale_};
    for (size_t at = 2; at < trial.inputs.size(); ++at) {
      trial.inputs[at].repeats_first = false;
      node.in.push_back(group_.add_input(trial.inputs[at]));
    }
    for (const Operand& output : trial.outputs) node.out.push_back(group_.add(output));
    group_.nodes.push_back(std::move(node));
  }

  const Row& row_;
  std::map<size_t, std::string> scalars_;
  bool scaled_;
  Choices& choices_;
  std::vector<Trial> trials_{};
  Group group_{};
  std::map<size_t, uint32_t> shared_{};
  std::vector<uint32_t> unscaled_{};
  uint32_t found_ = TN_ABSENT, scale_ = TN_ABSENT;
};

const Row& row_of(const Context& t) {
  const std::string_view group = t.wanted()->group();
  return *find_row(group.substr(group.find(' ') + 1));
}

Status run(Context& t, const char* suffix, bool scaled, bool in_place) {
  const Row& row = row_of(t);
  const auto draw = [&](Choices& choices, uint64_t budget) -> std::optional<Group> {
    // A step has more pairs in place than tn_support.alias_mask has bits.
    const int64_t count = in_place && choices.chance(4) ? choices.between(65, 90) : choices.between(2, 12);
    return Updates(row, scaled, static_cast<size_t>(count), budget, choices).run(in_place);
  };
  std::vector<Subject> parts = {{&row, TN_DTYPE_f32}};
  if (scaled) parts.push_back({&family_row(Family::SCALING, true), TN_DTYPE_f32});
  return run_group_case(t, words("update.", row.name, suffix), draw, 1, parts);
}

Status many(Context& t) { return run(t, "", false, false); }
Status scaled(Context& t) { return run(t, ".scaled", true, false); }
Status in_place(Context& t) { return run(t, ".in_place", false, true); }

[[maybe_unused]] const bool updates_registered = [] {
  const auto add = [](const Row& row, const char* promise, Status (*body)(Context&)) {
    const Registration added(
        {.level = 2, .name = kept(words("update ", row.name, ": ", promise)), .run = body});
  };
  for (const Row& row : op_rows) {
    if (row.family != Family::OPTIMIZER) continue;
    add(row, "many parameters of several types are one fragment", many);
    add(row, "gradients are unscaled and looked at for infinities on the way", scaled);
    add(row, "many parameters are updated where they are", in_place);
  }
  return true;
}();

}  // namespace

}  // namespace tenon::conform
