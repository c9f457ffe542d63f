// SPDX-License-Identifier: Apache-2.0
// update_jobs.cpp: from nodes to the jobs of each launch.
//
// A stage is one launch for what computes in f32 and one for what computes in f64, more when the attributes and scalars of
// its nodes are too many for one.
// Invariant: a tensor has its place before a job that reads or writes it is made; a folded one never gets any.
#include "update.hpp"
#include "update_plan.hpp"
#include "update_shape.hpp"

#include <tenon/author/node_view.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::NodeView;
using author::TensorView;

namespace {

constexpr size_t most_settings = 256;  // of a launch: each has its figures in shared memory

constexpr std::string_view state_names[] = {"state0", "state1"};

class UpdateAssembly {
 public:
  explicit UpdateAssembly(const FragmentView& fragment)
      : fragment_(fragment),
        plan_(fragment),
        places_(fragment.tensors().size(), no_place),
        shared_(fragment.inputs().size()) {
    for (const tn_alias& pair : fragment.aliases()) shared_[pair.input] = true;
  }

  UpdateWork run() {
    place_tensors();
    const auto nodes = static_cast<uint32_t>(fragment_.nodes().size());
    for (uint32_t stage = 0; stage < plan_.stages(); ++stage) {
      open_ = {no_launch, no_launch};
      for (uint32_t n = 0; n < nodes; ++n) {
        if (plan_.stage(n) == stage) add(NodeView(fragment_, n));
      }
    }
    open_ = {no_launch, no_launch};
    copy_outputs();
    return std::move(out_);
  }

 private:
  static constexpr size_t no_launch = SIZE_MAX;

  // One job in the making.
  struct Draft {
    UpdateKind kind{};
    UpdateSetting setting{};
    std::vector<uint32_t> tensors{}, places{};
  };

  void place_tensors() {
    for (uint32_t t = 0; t < places_.size(); ++t) {
      if (!fragment_.tensor(t).is_constant()) continue;
      places_[t] = first_constant_place + static_cast<uint32_t>(out_.constants.size());
      out_.constants.push_back(t);
    }
    for (uint32_t i = fragment_.binding_count(); i-- > 0;) {
      const auto inputs = static_cast<uint32_t>(fragment_.inputs().size());
      places_[i < inputs ? fragment_.inputs()[i] : fragment_.outputs()[i - inputs]] = i;
    }
    for (uint32_t t = 0; t < places_.size(); ++t) {
      if (plan_.producer(t) == TN_ABSENT || plan_.fold(t).folded() || places_[t] != no_place) continue;
      places_[t] = fragment_.binding_count() + static_cast<uint32_t>(out_.workspace_bytes / place_bytes);
      out_.workspace_bytes +=
          (fragment_.tensor(t).extent_bytes() + place_bytes - 1) / place_bytes * place_bytes;
    }
  }

  void add(const NodeView& node) {
    switch (node.op()) {
      case TN_OP_check_finite_and_unscale:
        return add_scans(node);
      case TN_OP_update_loss_scaling:
        return add_loss_scale(node);
      default:
        return add_optimizer(node);
    }
  }

  uint32_t place_in(const NodeView& node, uint32_t i) const {
    return node.has(i) ? places_[node.raw().inputs[i]] : no_place;
  }

  void read(Draft& draft, std::string_view name, uint32_t tensor) const {
    const uint32_t place = places_[tensor];
    const bool read_only = place >= first_constant_place || (place < shared_.size() && !shared_[place]);
    draft.kind.reads.push_back({name, fragment_.tensor(tensor).dtype(), read_only});
    draft.tensors.push_back(tensor);
    draft.places.push_back(place);
  }
  void write(Draft& draft, std::string_view name, uint32_t tensor, uint32_t place) const {
    draft.kind.writes.push_back({name, fragment_.tensor(tensor).dtype(), false});
    draft.tensors.push_back(tensor);
    draft.places.push_back(place);
  }
  void write_output(Draft& draft, std::string_view name, const NodeView& node, uint32_t i) const {
    if (node.gives(i)) write(draft, name, node.raw().outputs[i], places_[node.raw().outputs[i]]);
  }

  // Every gradient is looked at; those that somebody needs in memory are divided.
  void add_scans(const NodeView& node) {
    const uint32_t found_inf = found_inf_of(node);
    for (uint32_t i = 1; i < node.inputs(); ++i) {
      Draft draft{.kind = {.op = node.op()}, .setting = {.scale = place_in(node, 0)}};
      read(draft, "gradient", node.raw().inputs[i]);
      if (node.gives(i) && !plan_.fold(node.raw().outputs[i]).folded())
        write_output(draft, "gradient", node, i);
      draft.places.push_back(found_inf);
      finish(draft, TN_DTYPE_f32);
    }
  }

  uint32_t found_inf_of(const NodeView& node) {
    uint32_t place = node.gives(0) ? places_[node.raw().outputs[0]] : no_place;
    if (place == no_place) {
      place = fragment_.binding_count() + static_cast<uint32_t>(out_.workspace_bytes / place_bytes);
      out_.workspace_bytes += place_bytes;
    }
    out_.found_infs.push_back(place);
    return place;
  }

  void add_loss_scale(const NodeView& node) {
    Draft draft{.kind = {.op = node.op()},
                .setting = {.numbers = {static_cast<double>(node.integer("decr_every_n_nan_or_inf")),
                                        static_cast<double>(node.integer("incr_every_n_steps")),
                                        node.real("decr_ratio"), node.real("incr_ratio")}}};
    constexpr std::string_view names[] = {"found_inf", "scale", "good", "bad"};
    for (uint32_t i = 0; i < 4; ++i) read(draft, names[i], node.raw().inputs[i]);
    for (uint32_t i = 0; i < 3; ++i) write_output(draft, names[i + 1], node, i);
    finish(draft, TN_DTYPE_f32);
  }

  void add_optimizer(const NodeView& node) {
    const auto form = author::optimizer_form(node.op());
    Draft draft{.kind = {.op = node.op() == TN_OP_adamw ? uint32_t{TN_OP_adam} : node.op()},
                .setting = setting_of(node)};
    draft.kind.nesterov = author::attribute_i64(node.raw(), "nesterov").value_or(0) != 0;
    const UpdatePlan::Fold& fold = plan_.fold(node.raw().inputs[1]);
    draft.kind.divides = fold.folded();
    if (fold.folded()) draft.setting.scale = places_[fold.scale];
    // Beside a master the weight is not read: it is the master, rounded.
    if (!node.has(form.master())) read(draft, "weight", node.raw().inputs[0]);
    read(draft, "gradient", fold.folded() ? fold.gradient : node.raw().inputs[1]);
    for (uint32_t s = 0; s < form.states; ++s) read(draft, state_names[s], node.raw().inputs[2 + s]);
    if (node.has(form.master())) read(draft, "master", node.raw().inputs[form.master()]);
    write_output(draft, "weight", node, 0);
    for (uint32_t s = 0; s < form.states; ++s) write_output(draft, state_names[s], node, 1 + s);
    write_output(draft, "master", node, 1 + form.states);
    if (node.op() == TN_OP_sgd) write_output(draft, "gradient", node, 2);
    if (draft.kind.writes.empty()) return;
    const bool wide =
        std::ranges::any_of(draft.tensors,
                            [&](uint32_t t) { return fragment_.tensor(t).dtype() == TN_DTYPE_f64; }) ||
        node.in(0).dtype() == TN_DTYPE_f64;
    finish(draft, wide ? TN_DTYPE_f64 : TN_DTYPE_f32);
  }

  UpdateSetting setting_of(const NodeView& node) const {
    const auto form = author::optimizer_form(node.op());
    const auto number = [&](std::string_view name) {
      return author::attribute_f64(node.raw(), name).value_or(0);
    };
    const double first = form.stepped ? number("beta1") : number("momentum");
    return {.numbers = {number("weight_decay"), first, number("beta2"), number("epsilon")},
            .rate = place_in(node, form.rate()),
            .step = form.stepped ? place_in(node, form.step()) : no_place,
            .found_inf = place_in(node, form.found_inf()),
            .inverse_scale = place_in(node, form.inv_scale()),
            .decoupled = node.op() == TN_OP_adamw};
  }

  // Outputs that are bound twice, or are inputs.
  void copy_outputs() {
    const auto inputs = static_cast<uint32_t>(fragment_.inputs().size());
    for (uint32_t i = 0; i < fragment_.outputs().size(); ++i) {
      const uint32_t tensor = fragment_.outputs()[i];
      if (places_[tensor] == inputs + i) continue;
      Draft draft{.kind = {.op = TN_OP_identity}};
      read(draft, "value", tensor);
      write(draft, "value", tensor, inputs + i);
      finish(draft, TN_DTYPE_f32);
    }
  }

  UpdateLaunch& launch_for(const UpdateSetting& setting, uint32_t dtype) {
    size_t& open = open_[dtype == TN_DTYPE_f64 ? 1 : 0];
    const bool full =
        open != no_launch && out_.launches[open].settings.size() == most_settings &&
        std::ranges::find(out_.launches[open].settings, setting) == out_.launches[open].settings.end();
    if (open == no_launch || full) {
      open = out_.launches.size();
      out_.launches.push_back({.dtype = dtype});
    }
    return out_.launches[open];
  }

  template <class T>
  static size_t place_among(std::vector<T>& all, const T& one) {
    const auto found = std::ranges::find(all, one);
    if (found != all.end()) return static_cast<size_t>(found - all.begin());
    all.push_back(one);
    return all.size() - 1;
  }

  void finish(Draft& draft, uint32_t dtype) {
    const uint64_t count = fragment_.tensor(draft.tensors[0]).elements();
    if (count == 0) return;
    std::vector<TensorView> operands;
    for (const uint32_t tensor : draft.tensors) operands.push_back(fragment_.tensor(tensor));
    const UpdateShape shape(operands);
    draft.kind.flat = shape.flat();
    UpdateLaunch& launch = launch_for(draft.setting, dtype);
    UpdateJob job{.kind = place_among(launch.kinds, draft.kind),
                  .setting = place_among(launch.settings, draft.setting),
                  .count = count,
                  .shape = launch.shapes.size(),
                  .places = std::move(draft.places)};
    if (!shape.flat()) shape.append_to(launch.shapes);
    launch.jobs.push_back(std::move(job));
  }

  const FragmentView fragment_;
  const UpdatePlan plan_;
  std::vector<uint32_t> places_;  // by tensor
  std::vector<bool> shared_;      // inputs whose place an output may take
  std::array<size_t, 2> open_{};  // the launches of this stage that take more, in f32 and in f64
  UpdateWork out_{};
};

}  // namespace

UpdateWork plan_updates(const FragmentView& fragment) { return UpdateAssembly(fragment).run(); }

}  // namespace tenon::cuda
