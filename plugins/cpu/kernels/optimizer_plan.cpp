// SPDX-License-Identifier: Apache-2.0
// optimizer_plan.cpp: stages, folded gradients, and what may run in place.
//
// Invariant: a stage's writes meet no read of another node in the same stage.
#include "optimizer_plan.hpp"

#include "tile_ops.hpp"
#include "view.hpp"

#include <algorithm>

namespace tenon::cpu {

using author::optimizer_form;

namespace {

constexpr bool is_optimizer(uint32_t op) noexcept { return author::op_row(op).family == "OPTIMIZER"; }
constexpr uint32_t gradient_input = 1;

std::span<const uint32_t> inputs_of(const tn_node& node) { return {node.inputs, node.input_count}; }
std::span<const uint32_t> outputs_of(const tn_node& node) { return {node.outputs, node.output_count}; }

bool lists(std::span<const uint32_t> all, uint32_t one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Whether an optimizer computes in the type that its gradient alone would be computed in.
bool computes_as_gradient(const FragmentView& fragment, const tn_node& node) {
  const bool wide = class_of(fragment.tensor(node.inputs[gradient_input]).dtype()) == Reg::f64;
  for (uint32_t i = 0; i < node.input_count; ++i) {
    if (node.inputs[i] == TN_ABSENT) continue;
    if (!wide && class_of(fragment.tensor(node.inputs[i]).dtype()) == Reg::f64) return false;
  }
  return true;
}

// Whether output `output` of the node is computed element by element from its input `input`, and read for nothing else.
bool pairs(const tn_node& node, uint32_t input, uint32_t output) {
  if (node.op == TN_OP_update_loss_scaling) return true;  // reads all before it writes
  if (node.op == TN_OP_check_finite_and_unscale) return output > 0 && input == output;
  const auto form = optimizer_form(node.op);
  return input < form.rate() || input == form.master();
}

}  // namespace

UpdatePlan::UpdatePlan(const FragmentView& fragment, uint32_t first, uint32_t end)
    : fragment_(fragment),
      first_(first),
      end_(end),
      producer_(fragment.tensors().size(), TN_ABSENT),
      stage_(end - first),
      folds_(fragment.tensors().size()),
      reads_(fragment.tensors().size()) {
  find_producers();
  find_folds();
  find_stages();
  note_reads();
}

void UpdatePlan::find_producers() {
  for (uint32_t n = first_; n < end_; ++n) {
    for (const uint32_t tensor : outputs_of(fragment_.nodes()[n])) {
      if (tensor != TN_ABSENT) producer_[tensor] = n;
    }
  }
}

void UpdatePlan::find_folds() {
  std::vector<bool> written(fragment_.tensors().size());  // those that somebody needs in memory
  for (const uint32_t tensor : fragment_.outputs()) written[tensor] = true;
  for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
    const tn_node& node = fragment_.nodes()[n];
    const bool divides =
        n >= first_ && n < end_ && is_optimizer(node.op) && computes_as_gradient(fragment_, node);
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.inputs[i] != TN_ABSENT && !(divides && i == gradient_input)) written[node.inputs[i]] = true;
    }
  }
  for (uint32_t n = first_; n < end_; ++n) {
    const tn_node& node = fragment_.nodes()[n];
    if (node.op != TN_OP_check_finite_and_unscale) continue;
    for (uint32_t i = 1; i < node.output_count; ++i) {
      const uint32_t tensor = node.outputs[i];
      if (tensor != TN_ABSENT && !written[tensor]) folds_[tensor] = {node.inputs[i], node.inputs[0]};
    }
  }
}

// What the node reads when it runs: of a folded gradient, what is behind it.
template <class F>
void UpdatePlan::for_reads(const tn_node& node, F&& f) const {
  for (const uint32_t tensor : inputs_of(node)) {
    if (tensor == TN_ABSENT) continue;
    const Fold& fold = folds_[tensor];
    f(fold.folded() ? fold.gradient : tensor);
    if (fold.folded()) f(fold.scale);
  }
}

void UpdatePlan::find_stages() {
  std::vector<uint32_t>
      last;  // loss scaling, which nobody here waits for: it may then take the place of what others read
  for (uint32_t n = first_; n < end_; ++n) {
    const tn_node& node = fragment_.nodes()[n];
    uint32_t& stage = stage_[n - first_];
    for_reads(node, [&](uint32_t tensor) {
      if (producer_[tensor] != TN_ABSENT) stage = std::max(stage, stage_[producer_[tensor] - first_] + 1);
    });
    if (node.op == TN_OP_update_loss_scaling) last.push_back(n);
    stages_ = std::max(stages_, stage + 1);
  }
  for (const uint32_t n : last) {
    const auto outputs = outputs_of(fragment_.nodes()[n]);
    bool awaited = false;
    for (uint32_t other = first_; other < end_; ++other) {
      for_reads(fragment_.nodes()[other],
                [&](uint32_t tensor) { awaited = awaited || lists(outputs, tensor); });
    }
    if (!awaited) stage_[n - first_] = stages_;
  }
  for (const uint32_t stage : stage_) stages_ = std::max(stages_, stage + 1);
}

void UpdatePlan::note_reads() {
  for (uint32_t n = first_; n < fragment_.nodes().size(); ++n) {
    const tn_node& node = fragment_.nodes()[n];
    if (n >= end_) {
      for (const uint32_t tensor : inputs_of(node)) {
        if (tensor != TN_ABSENT) reads_[tensor].elsewhere = true;
      }
      continue;
    }
    for_reads(node, [&](uint32_t tensor) {
      Reads& reads = reads_[tensor];
      const uint32_t now = stage(n);
      if (reads.node != TN_ABSENT && now < reads.stage) return;
      reads.several = reads.node != TN_ABSENT && now == reads.stage && (reads.several || reads.node != n);
      reads.stage = now;
      reads.node = n;
    });
  }
  for (const uint32_t tensor : fragment_.outputs())
    reads_[tensor].elsewhere = true;  // it may be copied at the end
}

bool UpdatePlan::only_reader(uint32_t tensor, uint32_t node) const {
  const Reads& reads = reads_[tensor];
  return !reads.elsewhere && !reads.several && reads.node == node && reads.stage == stage(node);
}

bool UpdatePlan::honours(const tn_alias& alias) const {
  const uint32_t from = fragment_.inputs()[alias.input], to = fragment_.outputs()[alias.output];
  const uint32_t n = producer_[to];
  const auto listed = fragment_.outputs();
  if (std::count(listed.begin(), listed.end(), to) != 1) return false;
  if (n == TN_ABSENT || !only_reader(from, n)) return false;
  const View read(fragment_.tensor(from)), written(fragment_.tensor(to));
  if (read.dtype() != written.dtype() || !read.same_places(written)) return false;
  const tn_node& node = fragment_.nodes()[n];
  const auto outputs = outputs_of(node);
  const auto output = static_cast<uint32_t>(std::find(outputs.begin(), outputs.end(), to) - outputs.begin());
  for (uint32_t i = 0; i < node.input_count; ++i) {
    if (node.inputs[i] == TN_ABSENT) continue;
    const Fold& fold = folds_[node.inputs[i]];
    if (fold.scale == from) return false;
    if ((fold.folded() ? fold.gradient : node.inputs[i]) == from && !pairs(node, i, output)) return false;
  }
  return true;
}

author::Honoured honoured_by_update(const FragmentView& fragment, uint32_t first, uint32_t end) {
  if (fragment.aliases().empty()) return {};
  const UpdatePlan plan(fragment, first, end);
  return author::honoured_of(fragment.aliases(), [&](const tn_alias& pair) { return plan.honours(pair); });
}

}  // namespace tenon::cpu
