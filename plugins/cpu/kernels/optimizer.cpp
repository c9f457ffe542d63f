// SPDX-License-Identifier: Apache-2.0
// optimizer.cpp: from nodes to the jobs of one step.
//
// Invariant: a tensor has its place before any job that reads or writes it is made; a folded one never gets any.
#include "optimizer.hpp"

#include "optimizer_job.hpp"
#include "scaling.hpp"

namespace tenon::cpu {
namespace {

class Assembly {
 public:
  Assembly(Builder& builder, uint32_t first, uint32_t end)
      : builder_(builder),
        fragment_(builder.fragment()),
        plan_(fragment_, first, end),
        step_(std::make_unique<UpdateStep>(plan_.stages())) {}

  void add(uint32_t n) {
    const author::NodeView node(fragment_, n);
    switch (node.op()) {
      case TN_OP_check_finite_and_unscale:
        return add_unscale(node, n);
      case TN_OP_update_loss_scaling:
        return add_loss_scale(node, n);
      default:
        return add_optimizer(node, n);
    }
  }

  std::unique_ptr<UpdateStep> take(unsigned threads) {
    step_->cut(threads);
    return std::move(step_);
  }

 private:
  Place place_in(const author::NodeView& node, uint32_t i) const {
    return node.has(i) ? builder_.place(node.raw().inputs[i]) : Place{};
  }
  Place place_out(const author::NodeView& node, uint32_t i) {
    return node.gives(i) ? builder_.output_place(node.raw().outputs[i]) : Place{};
  }
  UpdateOperand in(const author::NodeView& node, uint32_t i) const {
    return node.has(i) ? UpdateOperand{builder_.place(node.raw().inputs[i]), View(node.in(i))}
                       : UpdateOperand{};
  }
  UpdateOperand out(const author::NodeView& node, uint32_t i) {
    return node.gives(i) ? UpdateOperand{place_out(node, i), View(node.out(i))} : UpdateOperand{};
  }

  void add_unscale(const author::NodeView& node, uint32_t n) {
    const Place found_inf = node.gives(0) ? place_out(node, 0) : builder_.scratch(sizeof(float));
    step_->add(plan_.stage(n), clear_found_inf(found_inf));
    for (uint32_t i = 1; i < node.inputs(); ++i) {
      const bool writes = node.gives(i) && !plan_.fold(node.raw().outputs[i]).folded();
      UnscaleOperands operands{.gradient = place_in(node, i),
                               .scale = place_in(node, 0),
                               .found_inf = found_inf,
                               .gradient_view = View(node.in(i))};
      if (writes) {
        operands.unscaled = place_out(node, i);
        operands.unscaled_view = View(node.out(i));
      }
      step_->add(plan_.stage(n), unscale_job(operands));
    }
  }

  void add_loss_scale(const author::NodeView& node, uint32_t n) {
    const LossScaleOperands operands{.found_inf = place_in(node, 0),
                                     .scale = place_in(node, 1),
                                     .good = place_in(node, 2),
                                     .bad = place_in(node, 3),
                                     .next_scale = place_out(node, 0),
                                     .next_good = place_out(node, 1),
                                     .next_bad = place_out(node, 2),
                                     .decrease_after = node.integer("decr_every_n_nan_or_inf"),
                                     .increase_after = node.integer("incr_every_n_steps"),
                                     .decrease = node.real("decr_ratio"),
                                     .increase = node.real("incr_ratio")};
    step_->add(plan_.stage(n), loss_scale_job(operands));
  }

  void add_optimizer(const author::NodeView& node, uint32_t n) {
    const auto form = author::optimizer_form(node.op());
    UpdateOperands operands{.weight = in(node, 0), .master = in(node, form.master())};
    set_gradient(operands, node.raw().inputs[1]);
    operands.next_weight = out(node, 0);
    for (uint32_t s = 0; s < form.states; ++s) {
      operands.state[s] = in(node, 2 + s);
      operands.next_state[s] = out(node, 1 + s);
    }
    operands.next_master = out(node, 1 + form.states);
    if (node.op() == TN_OP_sgd) operands.next_gradient = out(node, 2);
    operands.rate = place_in(node, form.rate());
    if (form.stepped) operands.step = place_in(node, form.step());
    operands.found_inf = place_in(node, form.found_inf());
    operands.inverse_scale = place_in(node, form.inv_scale());
    step_->add(plan_.stage(n), optimizer_job(node.raw(), operands));
  }

  void set_gradient(UpdateOperands& operands, uint32_t tensor) const {
    const UpdatePlan::Fold& fold = plan_.fold(tensor);
    const uint32_t source = fold.folded() ? fold.gradient : tensor;
    operands.gradient = {builder_.place(source), View(fragment_.tensor(source))};
    if (fold.folded()) operands.gradient_scale = builder_.place(fold.scale);
  }

  Builder& builder_;
  const FragmentView& fragment_;
  UpdatePlan plan_;
  std::unique_ptr<UpdateStep> step_;
};

}  // namespace

Status build_updates(Builder& builder, uint32_t first, uint32_t end, unsigned threads) {
  Assembly assembly(builder, first, end);
  for (uint32_t n = first; n < end; ++n) assembly.add(n);
  builder.add(assembly.take(threads));
  return {};
}

}  // namespace tenon::cpu
