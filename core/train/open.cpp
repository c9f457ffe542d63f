// SPDX-License-Identifier: Apache-2.0
// open.cpp: from a step to an executor: passes, plan, memory, and who sums gradients.
#include "fusion/names.hpp"
#include "graph/columns.hpp"
#include "train/layout.hpp"
#include "train/recomputes.hpp"
#include "train/state.hpp"

#include <algorithm>

namespace tenon {
namespace {

using State = Executor::State;

Status check(const TrainingGraph& step, const Strategy& strategy, const Communicator& comm) {
  TN_TRY(strategy.check());
  const uint32_t size = comm ? comm.size() : 1;
  if (step.ranks == size) return {};
  return Status(TN_INVALID, "executor: the step is for " + std::to_string(step.ranks) +
                                " ranks, the communicator has " + std::to_string(size) +
                                ": give TrainingOptions::ranks its size");
}

// The passes of a step: what it adds to its model computes in f32. A step made by Strategy::training has no updates to stop
// any more.
Result<passes::Options> passes_of(const TrainingGraph& step, const Strategy& strategy, Device& device) {
  passes::Options options = TN_TRY(passes_for(step.graph, strategy, device));
  if (options.prune) {
    std::erase_if(options.prune->stop_gradient, [&](const std::string& param) {
      return std::find(step.trained.begin(), step.trained.end(), param) == step.trained.end();
    });
  }
  if (options.amp)
    options.amp->black.insert(options.amp->black.end(), step.in_f32.begin(), step.in_f32.end());
  // A shard of weights lies as that of their gradients.
  if (options.amp && strategy.sharded && step.ranks > 1) {
    for (const std::string& param : step.trained)
      options.amp->as_parameter.emplace(train::gradient_of(param), param);
  }
  return options;
}

// The parameters that optimizers of the graph update.
std::vector<std::string> updated_params(const Graph& graph) {
  std::vector<std::string> out;
  for (const Graph::Node& node : graph.nodes()) {
    if (graph::columns_of(node.op).family != graph::Family::OPTIMIZER) continue;
    const Graph::ValueInfo& updated = graph.values()[node.inputs.front()];
    if (updated.role == Graph::Role::param) out.push_back(updated.name);
  }
  return out;
}

// Attention where there may be one, as the device has it. What the strategy names stays a node of its own right.
std::optional<passes::AttentionOptions> attention_for(const Graph& graph, const Strategy& strategy,
                                                      const FusionTarget& target) {
  const bool may_be = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                  [](const Graph::Node& node) { return node.op == Op::softmax; });
  if (!strategy.fuse_attention || !may_be) return {};
  std::vector<std::string> words = strategy.never_fuse;
  for (const auto* list : {&strategy.custom_white_list, &strategy.custom_black_list})
    words.insert(words.end(), list->begin(), list->end());
  for (const auto& group : strategy.must_fuse) words.insert(words.end(), group.begin(), group.end());
  const auto is_named = [words = std::move(words)](std::string_view made) {
    return std::any_of(words.begin(), words.end(),
                       [&](const std::string& word) { return fusion::matches(word, made); });
  };
  passes::AttentionOptions out{.supports = target.supports, .kept = is_named};
  if (target.whole_graph) {
    out.supports = [device = target.device](const Fragment&) -> Result<Support> {
      return Support{.reason = device + " runs whole graphs only, and is given them as they are written"};
    };
  }
  return out;
}

using Crossings = std::vector<train::Halves::Crossing>;

// The full step's updates read the same of a shorter one.
Result<Crossings> crossing_as(const State::Form& full, Crossings found) {
  const bool same = std::equal(found.begin(), found.end(), full.crossings.begin(), full.crossings.end(),
                               [](const auto& a, const auto& b) { return a.input == b.input; });
  if (same) return found;
  return Status(TN_INVALID, "executor: also: the step renews something by other values than the full one");
}

// Whether and why not launches are captured.
Result<train::Replays> open_replays(const State& s, size_t inputs) {
  if (s.strategy.capture == false) return train::Replays("capture = false");
  const bool offered = Capture::offered(s.device);
  if (s.strategy.capture == true && !offered)
    return Status(TN_UNSUPPORTED, "executor: capture = true: " + s.device.name() +
                                      " captures nothing; leave it to auto, which launches one by one");
  if (!offered) return train::Replays(s.device.name() + " captures nothing");
  if (s.timeline) return train::Replays("a timeline measures each launch");
  return train::Replays(true, inputs);
}

}  // namespace

Result<passes::Options> passes_for(const Graph& graph, const Strategy& strategy, Device& device) {
  TN_TRY(train::check_layout(strategy.layout, device));
  const FusionTarget target = TN_TRY(fusion_target(device));
  passes::Options options = strategy.passes();
  if (train::recomputes(graph, strategy, target)) options.recompute.emplace();
  options.attention = attention_for(graph, strategy, target);
  if (strategy.layout == "auto" && train::prefers_channels_last(graph, strategy, device))
    options.layout = {.prefer = "nhwc"};
  if (options.layout) options.layout->filters = (device.limits().preferences & TN_PREFERS_FILTERS_DENSE) == 0;
  if (!options.prune) return options;
  const std::vector<std::string> params = updated_params(graph);
  std::vector<std::string> stopped;
  for (const std::string& word : strategy.stop_gradient) {
    const size_t before = stopped.size();
    for (const std::string& param : params)
      if (fusion::matches(word, param)) stopped.push_back(param);
    if (stopped.size() == before) stopped.push_back(word);  // the pass says that nothing is called so
  }
  options.prune->stop_gradient = std::move(stopped);
  return options;
}

Result<PlanOptions> State::planning() {
  const FusionTarget target = TN_TRY(fusion_target(device));
  PlanOptions out{.fusion = strategy.fusion(target), .compile = compile};
  if (!step.divisor.empty() && !is_sharded) out.with_sums = {step.divisor};
  out.fusion.updates_by_arrival = step.divisor.empty() && !strategy.enable_backward_optimizer_op_deps;
  return out;
}

Result<State::Work> State::work_of(const TrainingGraph& of) {
  const passes::Options options = TN_TRY(passes_of(of, strategy, device));
  Work out{passes::Rewritten(of.graph)};
  if (!is_sharded) {
    out.passed = TN_TRY(passes::run(std::move(out.passed), options));
    return out;
  }
  const passes::Options nodes{.prune = options.prune,
                              .amp = options.amp,
                              .attention = options.attention,
                              .pad = options.pad,
                              .recompute = options.recompute};
  const passes::Options places{
      .layout = options.layout, .addto = options.addto, .in_place = options.in_place};
  out.passed = TN_TRY(passes::run(std::move(out.passed), nodes));
  out.halves = TN_TRY(train::split(out.passed, step.divisor));
  out.halves->gradients = TN_TRY(passes::run(std::move(out.halves->gradients), places));
  return out;
}

// Memory for the outputs that renew nothing.
Status State::complete(Form& form, size_t varying) {
  const Plan::State& plan = form.plan.state();
  for (const Graph::Output& output : plan.graph.outputs()) {
    const uint32_t bound = plan.names.at(output.name);
    if (form.renews(bound)) continue;
    const TensorSpec& spec = plan.graph.values()[output.value].spec;
    Buffer place = TN_TRY(device.allocate(compute, spec.bytes()));
    form.outputs.push_back({output.name, spec, bound, std::move(place)});
  }
  form.launches = train::Launches(form.plan);
  form.replays = TN_TRY(open_replays(*this, varying));
  form.bound.resize(plan.bound.size());
  return {};
}

// All but its spans, of which so many vary from step to step.
Status State::prepare(Form& form, size_t varying) {
  form.ties = lasting.ties(form.plan);
  TN_TRY(complete(form, varying));
  Buffer larger;
  if (form.plan.memory_bytes() > block.bytes())
    larger = TN_TRY(device.allocate(compute, form.plan.memory_bytes()));
  TN_TRY(lasting.agree(form.plan, compute));
  if (larger) block = std::move(larger);
  return {};
}

Status State::add(Form form, train::Inputs::Shape shape) {
  if (form.plan) TN_TRY(prepare(form, inputs.count()));
  find_crossings(form);
  inputs.add(std::move(shape));
  forms.push_back(std::move(form));
  bind();
  return compute.sync();
}

// What has to be as in the full step; parameters, inputs and gradients are looked at one by one.
Status State::check_also(const TrainingGraph& shorter) const {
  const auto refused = [](const std::string& text) { return Status(TN_INVALID, "executor: also: " + text); };
  if (shorter.ranks != step.ranks)
    return refused("the step is for " + std::to_string(shorter.ranks) + " ranks, the full one for " +
                   std::to_string(step.ranks));
  const bool is_part = shorter.samples < shorter.full_batch && shorter.full_batch == step.samples;
  if (!is_part || step.samples != step.full_batch)
    return refused("the step has " + std::to_string(shorter.samples) + " of " +
                   std::to_string(shorter.full_batch) + " samples, and the one that was opened " +
                   std::to_string(step.samples) +
                   ": give TrainingOptions::samples for both, and the opened one's as full_batch for this");
  if (shorter.trained != step.trained || shorter.renewed != step.renewed || shorter.divisor != step.divisor)
    return refused("it trains or renews other parameters, or in another way, than the full step");
  return {};
}

Status State::also(const TrainingGraph& shorter) {
  if (failure) return Status(*failure);
  TN_TRY(check_also(shorter));
  Work work = TN_TRY(work_of(shorter));
  Form form{.samples = shorter.samples};
  form.plan = TN_TRY(tenon::plan(work.first(), device, TN_TRY(planning())));
  if (work.halves) form.crossings = TN_TRY(crossing_as(full(), std::move(work.halves->crossings)));
  if (full().averages) form.averages = TN_TRY(full().averages->beside(shorter, form.plan, shorter.samples));
  train::Inputs::Shape shape = TN_TRY(inputs.shape(form.plan, step.divisor));
  if (without_samples == none && !step.divisor.empty()) TN_TRY(add_without_samples());
  return add(std::move(form), std::move(shape));
}

Status State::add_without_samples() {
  if (step.divisor.empty())
    return Status(TN_INVALID, "executor: inputs of no bytes: " +
                                  std::string(step.ranks == 1 ? "a step of one rank has samples"
                                                              : "uneven_batches = false says that all ranks "
                                                                "bring as many samples"));
  if (full().averages->sums() > 0)
    return Status(TN_UNSUPPORTED,
                  "executor: inputs of no bytes: sync_batch_norm takes as many samples from each rank");
  if (is_sharded) return add_without_samples_sharded();
  passes::Rewritten work = TN_TRY(train::updates_only(full().plan.graph(), step.divisor));
  const passes::Options options{.prune = passes::PruneOptions{}, .in_place = strategy.passes().in_place};
  work = TN_TRY(passes::run(std::move(work), options));
  PlanOptions planned = TN_TRY(planning());
  planned.with_sums.clear();
  for (const Graph::ValueInfo& info : work.graph.values())
    if (info.role == Graph::Role::input) planned.with_sums.push_back(info.name);
  Form form{.samples = 0};
  form.plan = TN_TRY(tenon::plan(work, device, planned));
  form.averages = TN_TRY(full().averages->beside(step, form.plan, 0));
  TN_TRY(add(std::move(form), inputs.none()));
  without_samples = forms.size() - 1;
  return {};
}

Result<Executor> Executor::open(const TrainingGraph& step, Device& device, const Strategy& strategy,
                                const Communicator& comm, const ExecutorOptions& options) {
  TN_TRY(check(step, strategy, comm));
  auto state = std::make_unique<State>(State{.step = step,
                                             .strategy = strategy,
                                             .compile = options.compile,
                                             .device = device,
                                             .comm = comm,
                                             .timeline = options.timeline});
  State& s = *state;
  s.compute = TN_TRY(s.device.stream({.name = "compute"}));
  s.is_sharded = strategy.sharded && step.ranks > 1;
  State::Work work = TN_TRY(s.work_of(step));
  State::Form form{.samples = step.samples};
  form.plan = TN_TRY(tenon::plan(work.first(), s.device, TN_TRY(s.planning())));
  s.notes = work.first().notes;
  if (step.ranks > 1) {
    form.averages = TN_TRY(
        train::Averages::open({s.step, form.plan, s.strategy, options.target, s.timeline}, s.device, s.comm));
  }
  TN_TRY(s.open_lasting(form, work));
  s.inputs = TN_TRY(train::Inputs::open(form.plan, step.divisor, s.device, s.compute));
  train::Inputs::Shape shape = TN_TRY(s.inputs.shape(form.plan, step.divisor));
  TN_TRY(s.add(std::move(form), std::move(shape)));
  return Executor(std::move(state));
}

}  // namespace tenon
