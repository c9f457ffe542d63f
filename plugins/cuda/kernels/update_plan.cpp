// SPDX-License-Identifier: Apache-2.0
// update_plan.cpp: stages, folded gradients, and what may be written in place.
#include "update_plan.hpp"

#include <algorithm>

namespace tenon::cuda {

namespace {

constexpr uint32_t gradient_input = 1;

std::span<const uint32_t> inputs_of(const tn_node& node) { return {node.inputs, node.input_count}; }
std::span<const uint32_t> outputs_of(const tn_node& node) { return {node.outputs, node.output_count}; }

bool lists(std::span<const uint32_t> all, uint32_t one) { return std::ranges::find(all, one) != all.end(); }

bool is_optimizer(uint32_t op) { return author::op_row(op).family == "OPTIMIZER"; }

// Whether every element lies in the same place of both.
bool lie_alike(author::TensorView a, author::TensorView b) {
  if (a.dtype() != b.dtype() || !author::same_dims(a, b)) return false;
  const auto x = a.strides(), y = b.strides();
  for (uint32_t i = 0; i < a.rank(); ++i) {
    if (a.dims()[i] > 1 && x[i] != y[i]) return false;
  }
  return true;
}

// Whether output `output` is computed element by element from input `input`, which is read for nothing else.
bool pairs_up(const tn_node& node, uint32_t input, uint32_t output) {
  if (node.op == TN_OP_update_loss_scaling) return true;  // reads all before it writes
  if (node.op == TN_OP_check_finite_and_unscale) return output > 0 && input == output;
  const auto form = author::optimizer_form(node.op);
  return input < form.rate() || input == form.master();
}

}  // namespace

UpdatePlan::UpdatePlan(const FragmentView& fragment)
    : fragment_(fragment),
      producer_(fragment.tensors().size(), TN_ABSENT),
      stage_(fragment.nodes().size()),
      folds_(fragment.tensors().size()),
      reads_(fragment.tensors().size()) {
  find_producers();
  find_folds();
  find_stages();
  note_reads();
}

void UpdatePlan::find_producers() {
  for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
    for (const uint32_t tensor : outputs_of(fragment_.nodes()[n])) {
      if (tensor != TN_ABSENT) producer_[tensor] = n;
    }
  }
}

void UpdatePlan::find_folds() {
  std::vector<bool> needed(fragment_.tensors().size());  // in memory
  for (const uint32_t tensor : fragment_.outputs()) needed[tensor] = true;
  for (const tn_node& node : fragment_.nodes()) {
    for (uint32_t i = 0; i < node.input_count; ++i) {
      const bool divides = is_optimizer(node.op) && i == gradient_input;
      if (node.inputs[i] != TN_ABSENT && !divides) needed[node.inputs[i]] = true;
    }
  }
  for (const tn_node& node : fragment_.nodes()) {
    if (node.op != TN_OP_check_finite_and_unscale) continue;
    for (uint32_t i = 1; i < node.output_count; ++i) {
      const uint32_t tensor = node.outputs[i];
      if (tensor != TN_ABSENT && !needed[tensor]) folds_[tensor] = {node.inputs[i], node.inputs[0]};
    }
  }
}

// What a node reads when it runs: of a folded gradient, what is behind it.
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
  std::vector<bool> awaited(fragment_.nodes().size());
  for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
    for_reads(fragment_.nodes()[n], [&](uint32_t tensor) {
      const uint32_t from = producer_[tensor];
      if (from == TN_ABSENT) return;
      stage_[n] = std::max(stage_[n], stage_[from] + 1);
      awaited[from] = true;
    });
    stages_ = std::max(stages_, stage_[n] + 1);
  }
  for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
    if (fragment_.nodes()[n].op == TN_OP_update_loss_scaling && !awaited[n]) put_last(n);
  }
  for (const uint32_t stage : stage_) stages_ = std::max(stages_, stage + 1);
}

// Loss scaling that nobody waits for may take the place of what others read, when it comes after them.
void UpdatePlan::put_last(uint32_t node) {
  const auto outputs = outputs_of(fragment_.nodes()[node]);
  const bool in_place = std::ranges::any_of(fragment_.aliases(), [&](const tn_alias& pair) {
    return lists(outputs, fragment_.outputs()[pair.output]);
  });
  if (in_place) stage_[node] = stages_;
}

void UpdatePlan::note_reads() {
  for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
    for_reads(fragment_.nodes()[n], [&](uint32_t tensor) {
      Reads& reads = reads_[tensor];
      const uint32_t now = stage_[n];
      if (reads.node != TN_ABSENT && now < reads.stage) return;
      reads.several = reads.node != TN_ABSENT && now == reads.stage && (reads.several || reads.node != n);
      reads.stage = now;
      reads.node = n;
    });
  }
  for (const uint32_t tensor : fragment_.outputs()) reads_[tensor].elsewhere = true;  // it may be copied
}

bool UpdatePlan::is_only_reader(uint32_t tensor, uint32_t node) const {
  const Reads& reads = reads_[tensor];
  return !reads.elsewhere && !reads.several && reads.node == node && reads.stage == stage_[node];
}

bool UpdatePlan::reads_only_what_it_renews(const tn_node& node, uint32_t from, uint32_t output) const {
  for (uint32_t i = 0; i < node.input_count; ++i) {
    if (node.inputs[i] == TN_ABSENT) continue;
    const Fold& fold = folds_[node.inputs[i]];
    if (fold.scale == from) return false;
    if ((fold.folded() ? fold.gradient : node.inputs[i]) == from && !pairs_up(node, i, output)) return false;
  }
  return true;
}

bool UpdatePlan::honours(const tn_alias& alias) const {
  const uint32_t from = fragment_.inputs()[alias.input], to = fragment_.outputs()[alias.output];
  const uint32_t n = producer_[to];
  if (std::ranges::count(fragment_.outputs(), to) != 1) return false;
  if (n == TN_ABSENT || !is_only_reader(from, n)) return false;
  if (!lie_alike(fragment_.tensor(from), fragment_.tensor(to))) return false;
  const tn_node& node = fragment_.nodes()[n];
  const auto outputs = outputs_of(node);
  const auto output = static_cast<uint32_t>(std::ranges::find(outputs, to) - outputs.begin());
  return reads_only_what_it_renews(node, from, output);
}

}  // namespace tenon::cuda
