// SPDX-License-Identifier: Apache-2.0
// training.cpp: the nodes that a step has beyond its model.
#include <tenon/training.hpp>

#include "base/text.hpp"
#include "fusion/names.hpp"
#include "graph/columns.hpp"
#include "passes/optimizer.hpp"
#include "train/normalise.hpp"
#include "train/options.hpp"
#include "train/split.hpp"

#include <algorithm>

namespace tenon {
namespace {

using train::bad_training;
using Value = Graph::Value;

bool any_matches(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return fusion::matches(pattern, name); });
}

class Maker {
 public:
  Maker(const Graph& model, const TrainingOptions& options)
      : model_(model), options_(options), out_{.graph = model}, g_(out_.graph) {}

  Result<TrainingGraph> run(std::string_view loss) && {
    TN_TRY(model_.check());
    TN_TRY(train::check(options_));
    TN_TRY(find_loss(loss));
    TN_TRY(take_renewed());
    TN_TRY(find_trained());
    out_.rules = train::rules(options_);
    const size_t before = g_.nodes().size();
    const Value seed = seed_of_loss();
    note_in_f32(before);
    const std::vector<Value> gradients = TN_TRY(backward(seed));
    const size_t behind = g_.nodes().size();
    update(gradients);
    renew_models_own();
    note_in_f32(behind);
    TN_TRY(g_.check());
    if (options_.sync_batch_norm && options_.ranks > 1)
      TN_TRY(train::normalise_over_ranks(out_, options_.ranks));
    return std::move(out_);
  }

 private:
  static constexpr const char* prefix = "training.";

  Value scalar_param(const char* what, double start) {
    const std::string called = std::string(prefix) + what;
    out_.starts.push_back({called, start});
    return g_.param(called, {f32, {}});
  }

  Status find_loss(std::string_view loss) {
    std::vector<std::string_view> names;
    for (const Graph::Output& output : model_.outputs()) {
      names.push_back(output.name);
      if (output.name == loss) loss_ = model_.value(output.value);
    }
    if (loss_.index == TN_ABSENT)
      return bad_training("the model has no output " + base::quoted(loss) + base::did_you_mean(loss, names));
    const TensorSpec& spec = model_.spec(loss_);
    if (spec.elements() != 1 || !graph::is_float(spec.dtype))
      return bad_training("output " + base::quoted(loss) + " has " +
                          base::counted(spec.elements(), "element") + " of " + std::string(name(spec.dtype)) +
                          ": a loss is one float; take its mean");
    out_.loss = loss;
    return {};
  }

  // What the model itself renews: both names, of one type and size, each once.
  Status take_renewed() {
    for (const Renewed& pair : options_.renewed) {
      const uint32_t param = index_of(pair.param), output = output_of(pair.output);
      if (param == TN_ABSENT || model_.values()[param].role != Graph::Role::param)
        return bad_training("renewed: " + base::quoted(pair.param) + " is no parameter of the model");
      if (output == TN_ABSENT)
        return bad_training("renewed: the model has no output " + base::quoted(pair.output));
      const TensorSpec &from = model_.values()[param].spec, &to = model_.values()[output].spec;
      if (from.dtype != to.dtype || from.dims != to.dims)
        return bad_training("renewed: output " + base::quoted(pair.output) +
                            " has another type or shape than " + base::quoted(pair.param));
      for (const Renewed& other : options_.renewed) {
        if (&other != &pair && (other.param == pair.param || other.output == pair.output))
          return bad_training("renewed: " + base::quoted(pair.param) + " or " + base::quoted(pair.output) +
                              " is named twice");
      }
    }
    return {};
  }

  uint32_t index_of(std::string_view called) const {
    for (uint32_t i = 0; i < model_.values().size(); ++i) {
      if (model_.values()[i].name == called) return i;
    }
    return TN_ABSENT;
  }
  uint32_t output_of(std::string_view called) const {
    for (const Graph::Output& output : model_.outputs()) {
      if (output.name == called) return output.value;
    }
    return TN_ABSENT;
  }

  // Which values lead to the loss.
  std::vector<bool> leading() const {
    std::vector<bool> out(model_.values().size());
    out[loss_.index] = true;
    for (auto node = model_.nodes().rbegin(); node != model_.nodes().rend(); ++node) {
      const bool any = std::any_of(node->outputs.begin(), node->outputs.end(),
                                   [&](uint32_t v) { return v != TN_ABSENT && out[v]; });
      for (const uint32_t value : node->inputs) {
        if (value != TN_ABSENT && any) out[value] = true;
      }
    }
    return out;
  }

  Status find_trained() {
    const std::vector<bool> leads = leading();
    std::vector<std::string_view> names;
    for (uint32_t i = 0; i < model_.values().size(); ++i) {
      const Graph::ValueInfo& info = model_.values()[i];
      if (info.role != Graph::Role::param) continue;
      names.push_back(info.name);
      const bool is_renewed = std::any_of(options_.renewed.begin(), options_.renewed.end(),
                                          [&](const Renewed& pair) { return pair.param == info.name; });
      if (is_renewed || !leads[i] || !graph::is_float(info.spec.dtype)) continue;
      if (any_matches(options_.stop_gradient, info.name)) continue;
      trained_.push_back(g_.value(i));
      out_.trained.push_back(info.name);
    }
    if (trained_.empty())
      return bad_training("no parameter of the model is trained: the loss depends on none of a float type");
    for (const auto* list : {&options_.stop_gradient, &options_.optimizer.no_decay}) {
      for (const std::string& pattern : *list) {
        const bool used = std::any_of(names.begin(), names.end(),
                                      [&](std::string_view name) { return fusion::matches(pattern, name); });
        if (!used)
          return bad_training(std::string(list == &options_.stop_gradient ? "stop_gradient" : "no_decay") +
                              ": " + base::quoted(pattern) + " names no parameter" +
                              base::did_you_mean(pattern, names));
      }
    }
    return {};
  }

  // The gradient of the loss itself: its scale, and the part of a full batch that this rank brings; nothing for one.
  Value seed_of_loss() {
    out_.samples = options_.samples;
    out_.full_batch = options_.full_batch == 0 ? options_.samples : options_.full_batch;
    const bool is_part = options_.ranks > 1 && out_.samples != out_.full_batch;
    Value seed{};
    if (is_part)
      seed = g_.constant({f32, {}}, static_cast<double>(out_.samples) / static_cast<double>(out_.full_batch));
    if (options_.scaling) {
      scale_ = scalar_param("scale", options_.scaling->init);
      out_.scale = std::string(prefix) + "scale";
      seed = is_part ? g_.named(std::string(prefix) + "scale_of_part").mul(scale_, seed) : scale_;
    }
    return seed.index == TN_ABSENT ? seed : as(seed, g_.spec(g_.value(loss_.index)));
  }

  // The nodes from `first` on, but those whose types are their own.
  void note_in_f32(size_t first) {
    for (size_t i = first; i < g_.nodes().size(); ++i) {
      const Graph::Node& node = g_.nodes()[i];
      const graph::Family family = graph::columns_of(node.op).family;
      if (family == graph::Family::OPTIMIZER || family == graph::Family::SCALING || node.op == Op::cast)
        continue;
      const Graph::ValueInfo& made = g_.values()[node.outputs[0]];
      if (made.spec.dtype == f32) out_.in_f32.push_back(made.name);
    }
  }

  // The gradients, summed over ranks.
  Result<std::vector<Value>> backward(Value seed) {
    std::vector<Value> gradients = TN_TRY(g_.gradients(g_.value(loss_.index), trained_, seed));
    out_.ranks = options_.ranks;
    if (options_.ranks == 1) return gradients;
    if (options_.uneven_batches) {
      out_.divisor = std::string(prefix) + "divisor";
      divisor_ = g_.input(out_.divisor, {f32, {}});
    } else {
      divisor_ = g_.constant({f32, {}}, options_.ranks);
    }
    g_.communicator(0, options_.ranks);
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = g_.named(train::gradient_of(out_.trained[i]))
                         .all_reduce(gradients[i], {{"comm", int64_t{0}}, {"reduce", std::string("sum")}});
    }
    return gradients;
  }

  // A scalar of f32 in the type and shape of a value with one element.
  Value as(Value scalar, const TensorSpec& spec) {
    const Value typed = spec.dtype == f32 ? scalar : g_.cast(scalar, spec.dtype);
    return spec.dims.empty() ? typed : g_.reshape(typed, spec.dims);
  }

  // Gradients as updates take them, and what they multiply them by.
  void update(std::vector<Value> gradients) {
    Value inverse{};
    if (!out_.divisor.empty() && out_.full_batch != 1)  // in full batches
      divisor_ = g_.named(std::string(prefix) + "batches")
                     .div(divisor_, g_.constant({f32, {}}, static_cast<double>(out_.full_batch)));
    if (options_.scaling || options_.clip_norm > 0) {
      judge(gradients);
    } else if (options_.ranks > 1) {
      inverse = options_.uneven_batches ? g_.named(std::string(prefix) + "inverse").reciprocal(divisor_)
                                        : g_.constant({f32, {}}, 1.0 / options_.ranks);
    }
    if (options_.clip_norm > 0) inverse = clip(gradients);
    rate_ = scalar_param("rate", options_.optimizer.rate);
    out_.rate = std::string(prefix) + "rate";
    if (passes::optimizer_slots(options_.optimizer.op).states == 2) count_steps();
    for (size_t i = 0; i < trained_.size(); ++i) update(i, gradients[i], inverse);
    if (options_.scaling) scale_next();
    if (found_inf_.index != TN_ABSENT) count_bad_steps();
  }

  // One verdict on all gradients, which become averages without the loss's scale.
  void judge(std::vector<Value>& gradients) {
    Value by = scale_;
    if (by.index == TN_ABSENT)
      by = options_.ranks > 1 ? divisor_ : g_.constant({f32, {}}, 1);
    else if (options_.ranks > 1)
      by = g_.named(std::string(prefix) + "scale_of_sums").mul(scale_, divisor_);
    std::vector<Value> inputs{by};
    std::vector<std::string> names{std::string(prefix) + "found_inf"};
    for (size_t i = 0; i < gradients.size(); ++i) {
      inputs.push_back(gradients[i]);
      names.push_back(out_.trained[i] + ".average");
    }
    const std::vector<Value> made = g_.named(std::move(names)).check_finite_and_unscale(inputs);
    std::copy(made.begin() + 1, made.end(), gradients.begin());
    found_inf_ = made[0];
    out_.found_inf = std::string(prefix) + "found_inf.now";
    g_.output(out_.found_inf, found_inf_);
    if (!options_.scaling) return;
    out_.scale_used = std::string(prefix) + "scale.now";
    g_.output(out_.scale_used, g_.identity(scale_));
  }

  // clip_norm / max(norm, clip_norm)
  Value clip(const std::vector<Value>& gradients) {
    out_.clips = true;
    Value total{};
    for (const Value gradient : gradients) {
      const TensorSpec spec = g_.spec(gradient);
      std::vector<int64_t> axes(spec.dims.size());
      for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
      const Value squares = g_.square(spec.dtype == f32 ? gradient : g_.cast(gradient, f32));
      const Value sum = axes.empty() ? squares : g_.sum(squares, axes);
      total = total.index == TN_ABSENT ? sum : g_.add(total, sum);
    }
    const Value norm = g_.named(std::string(prefix) + "norm").sqrt(total);
    g_.output(std::string(prefix) + "norm.now", norm);
    const Value limit = g_.constant({f32, {}}, options_.clip_norm);
    return g_.named(std::string(prefix) + "clip").div(limit, g_.max(norm, limit));
  }

  // A bad step is none.
  void count_steps() {
    const Value step = scalar_param("step", 0), one = g_.constant({f32, {}}, 1);
    const Value more = found_inf_.index == TN_ABSENT ? one : g_.sub(one, found_inf_);
    step_ = g_.named(std::string(prefix) + "step.next").add(step, more);
    renew(std::string(prefix) + "step", step_);
  }

  void update(size_t i, Value gradient, Value inverse) {
    const std::string& called = out_.trained[i];
    const TensorSpec spec = g_.spec(trained_[i]);
    const bool is_half = bits(spec.dtype) < 32;
    TensorSpec kept = spec;
    if (is_half) kept.dtype = f32;
    const passes::OptimizerSlots slots = passes::optimizer_slots(options_.optimizer.op);
    static constexpr const char* two[] = {".m", ".v"};
    std::vector<Value> inputs{trained_[i], gradient};
    std::vector<std::string> names{called + ".update"}, states;
    for (size_t k = 0; k < slots.states; ++k) {
      states.push_back(called + (slots.states == 1 ? ".velocity" : two[k]));
      inputs.push_back(g_.param(states.back(), kept));
      names.push_back(states.back() + ".update");
      out_.starts.push_back({states.back(), 0});
    }
    inputs.push_back(rate_);
    if (slots.states == 2) inputs.push_back(step_);
    const Value master = is_half ? g_.param(called + ".master", kept) : Value{};
    inputs.insert(inputs.end(), {master, found_inf_, inverse});
    while (inputs.back().index == TN_ABSENT) inputs.pop_back();
    names.push_back(called + ".master.update");
    if (options_.optimizer.op == Op::sgd) names.push_back(called + ".unscaled");
    const std::vector<Value> made =
        g_.named(std::move(names)).node(options_.optimizer.op, inputs, attributes_for(called));
    renew(called, made[0]);
    for (size_t k = 0; k < states.size(); ++k) renew(states[k], made[1 + k]);
    if (!is_half) return;
    out_.masters.push_back({called, called + ".master", called + ".master.next"});
    renew(called + ".master", made[slots.master_output]);
  }

  Graph::Attributes attributes_for(const std::string& param) const {
    Graph::Attributes out = options_.optimizer.attributes;
    if (!any_matches(options_.optimizer.no_decay, param)) return out;
    std::erase_if(out, [](const Attribute& a) { return a.name == "weight_decay"; });
    out.push_back({"weight_decay", 0.0});
    return out;
  }

  void scale_next() {
    if (!options_.scaling->dynamic) return;
    const LossScaling& s = *options_.scaling;
    const Value good = scalar_param("good", 0), bad = scalar_param("bad", 0);
    const auto next =
        g_.named({std::string(prefix) + "scale.update", std::string(prefix) + "good.update",
                  std::string(prefix) + "bad.update"})
            .update_loss_scaling(found_inf_, scale_, good, bad,
                                 {{"decr_every_n_nan_or_inf", int64_t{s.decr_every_n_nan_or_inf}},
                                  {"decr_ratio", s.decr_ratio},
                                  {"incr_every_n_steps", int64_t{s.incr_every_n_steps}},
                                  {"incr_ratio", s.incr_ratio}});
    renew(out_.scale, next[0]);
    renew(std::string(prefix) + "good", next[1]);
    renew(std::string(prefix) + "bad", next[2]);
  }

  // For who does not look at every step.
  void count_bad_steps() {
    out_.skipped = std::string(prefix) + "skipped";
    const Value skipped = scalar_param("skipped", 0);
    renew(out_.skipped, g_.named(out_.skipped + ".next").add(skipped, found_inf_));
  }

  // What the model renews, running statistics for one, is harmed by a bad step as weights are.
  void renew_models_own() {
    for (const Renewed& pair : options_.renewed) {
      const Value old = g_.value(index_of(pair.param)), made = g_.value(output_of(pair.output));
      if (found_inf_.index == TN_ABSENT || !graph::is_float(g_.spec(old).dtype)) {
        out_.renewed.push_back(pair);
        continue;
      }
      if (!is_bad_) is_bad_ = g_.cast(found_inf_, boolean);
      renew(pair.param, g_.named(pair.param + ".kept").where(*is_bad_, old, made), ".renewed");
    }
  }

  void renew(const std::string& param, Value next, const char* suffix = ".next") {
    const std::string output = param + suffix;
    g_.output(output, next);
    out_.renewed.push_back({param, output});
  }

  const Graph& model_;
  const TrainingOptions& options_;
  TrainingGraph out_;
  Graph& g_;
  Value loss_{}, scale_{}, divisor_{}, found_inf_{}, rate_{}, step_{};
  std::optional<Value> is_bad_{};
  std::vector<Value> trained_{};
};

}  // namespace

Result<TrainingGraph> training_graph(const Graph& model, std::string_view loss,
                                     const TrainingOptions& options) {
  return Maker(model, options).run(loss);
}

}  // namespace tenon
