// SPDX-License-Identifier: Apache-2.0
// open.cpp: from a step to an executor: passes, plan, memory, and who sums gradients.
#include "fusion/names.hpp"
#include "train/state.hpp"

#include <algorithm>

namespace tenon {
namespace {

using State = Executor::State;

Status check(const TrainingGraph& step, const Strategy& strategy, const Communicator& comm) {
  TN_TRY(strategy.check());
  if (strategy.sharded)
    return Status(
        TN_UNSUPPORTED,
        "executor: sharded = true: whole steps have no sharded mode yet; set it false, or use GradientSync");
  const uint32_t size = comm ? comm.size() : 1;
  if (step.ranks == size) return {};
  return Status(TN_INVALID, "executor: the step is for " + std::to_string(step.ranks) +
                                " ranks, the communicator has " + std::to_string(size) +
                                ": give TrainingOptions::ranks its size");
}

// The passes that the strategy asks for; what a step adds to its model computes in f32. A step made by Strategy::training has
// no updates to stop any more.
Result<passes::Rewritten> rewrite(const TrainingGraph& step, const Strategy& strategy) {
  passes::Options options = strategy.passes();
  if (options.prune) {
    options.prune->stop_gradient.clear();
    for (const std::string& param : step.trained) {
      const bool stops = std::any_of(strategy.stop_gradient.begin(), strategy.stop_gradient.end(),
                                     [&](const std::string& word) { return fusion::matches(word, param); });
      if (stops) options.prune->stop_gradient.push_back(param);
    }
  }
  if (options.amp)
    options.amp->black.insert(options.amp->black.end(), step.in_f32.begin(), step.in_f32.end());
  return passes::run(passes::Rewritten(step.graph), options);
}

// Memory for the outputs that renew nothing.
Status open_outputs(State& s) {
  const Plan::State& plan = s.plan.state();
  for (const Graph::Output& output : plan.graph.outputs()) {
    const uint32_t bound = plan.names.at(output.name);
    if (s.lasting.renews(bound)) continue;
    const TensorSpec& spec = plan.graph.values()[output.value].spec;
    Buffer place = TN_TRY(s.device.allocate(s.compute, spec.bytes()));
    s.outputs.push_back({output.name, spec, bound, std::move(place)});
  }
  return {};
}

// Whether and why not launches are captured.
Result<train::Replays> open_replays(const State& s) {
  if (s.strategy.capture == false) return train::Replays("capture = false");
  const bool offered = Capture::offered(s.device);
  if (s.strategy.capture == true && !offered)
    return Status(TN_UNSUPPORTED, "executor: capture = true: " + s.device.name() +
                                      " captures nothing; leave it to auto, which launches one by one");
  if (!offered) return train::Replays(s.device.name() + " captures nothing");
  if (s.timeline) return train::Replays("a timeline measures each launch");
  return train::Replays(true, s.inputs.count());
}

}  // namespace

Result<Executor> Executor::open(const TrainingGraph& step, Device& device, const Strategy& strategy,
                                const Communicator& comm, const ExecutorOptions& options) {
  TN_TRY(check(step, strategy, comm));
  auto state = std::make_unique<State>(State{
      .step = step, .strategy = strategy, .device = device, .comm = comm, .timeline = options.timeline});
  State& s = *state;
  s.compute = TN_TRY(s.device.stream({.name = "compute"}));
  passes::Rewritten work = TN_TRY(rewrite(step, strategy));
  const FusionTarget target = TN_TRY(fusion_target(s.device));
  PlanOptions planned{.fusion = strategy.fusion(target), .compile = options.compile};
  if (!step.divisor.empty()) planned.with_sums = {step.divisor};
  planned.fusion.updates_by_arrival = step.divisor.empty() && !strategy.enable_backward_optimizer_op_deps;
  s.plan = TN_TRY(tenon::plan(work, s.device, planned));
  s.notes = std::move(work.notes);
  s.block = TN_TRY(s.device.allocate(s.compute, s.plan.memory_bytes()));
  s.lasting = TN_TRY(train::Lasting::open({s.step, s.plan, work.masters}, s.device, s.compute));
  s.inputs = TN_TRY(train::Inputs::open(s.plan, step.divisor, s.device, s.compute));
  TN_TRY(open_outputs(s));
  if (step.ranks > 1) {
    s.averages = TN_TRY(
        train::Averages::open({s.step, s.plan, s.strategy, options.target, s.timeline}, s.device, s.comm));
  }
  s.launches = train::Launches(s.plan);
  s.replays = TN_TRY(open_replays(s));
  s.bound.resize(s.plan.state().bound.size());
  s.bind();
  TN_TRY(s.compute.sync());
  return Executor(std::move(state));
}

}  // namespace tenon
