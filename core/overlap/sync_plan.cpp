// SPDX-License-Identifier: Apache-2.0
// sync_plan.cpp: plans for a group of ranks: the first one, what is measured, and another when that pays.
#include "overlap/checks.hpp"
#include "overlap/contention.hpp"
#include "overlap/flows.hpp"
#include "overlap/sync_state.hpp"
#include "overlap/timing.hpp"
#include "runtime/device_state.hpp"

#include <algorithm>
#include <bit>

namespace tenon {

using overlap::Averaging;
using overlap::Issuer;
using overlap::Lane;
using overlap::Shards;
using overlap::SparseLane;
using overlap::Sums;

namespace {

Status refused(const std::string& what) { return Status(TN_UNSUPPORTED, "GradientSync: " + what); }

Status check_sparse(std::span<const Gradient> parameters) {
  for (const Gradient& parameter : parameters) {
    if (parameter.sparse && (parameter.row_elements == 0 || parameter.most_rows == 0))
      return Status(TN_INVALID,
                    "GradientSync: parameter " + base::quoted(parameter.name) +
                        " is sparse, with row_elements = " + std::to_string(parameter.row_elements) +
                        " and most_rows = " + std::to_string(parameter.most_rows) +
                        ": say how large rows are, and how many one rank may bring to a step");
  }
  return {};
}

Status check_hook(const CommHook& hook, bool sharded) {
  const std::string called = "hook '" + hook.name + "'";
  if (!hook.name.empty() && !hook.all_reduce)
    return Status(TN_INVALID, "GradientSync: " + called + " has no all_reduce: give it one, or no name");
  if (hook.name.empty() && hook.all_reduce)
    return Status(TN_INVALID, "GradientSync: the hook has no name: ranks are compared by names");
  if (!hook.name.empty() && sharded)
    return refused(called + " sums whole buckets, which sharded mode does not: leave one of them out");
  return {};
}

CommTarget target_of(Device& device, const Communicator& comm, const OverlapOptions& asked,
                     CommTarget given) {
  given.name = comm.name();
  given.ranks = comm.size();
  // What was asked for may be more than what automatic mode tries.
  given.max_streams = std::max(given.max_streams, std::min(asked.nccl_comm_num, overlap::most_streams));
  given.alignment = std::bit_ceil(std::max<uint64_t>(device.limits().alignment, TN_MEMORY_ALIGNMENT));
  return given;
}

// Whether options or costs speak of routes through groups of ranks, where there can be such.
bool asks_for_groups(const CommTarget& target, const OverlapOptions& overlap, const CommHook& hook) {
  if (target.ranks == 1 || overlap.sharded || !hook.name.empty()) return false;
  const auto through_groups = [](const CommTarget::Measured& cost) { return cost.route != Route::flat; };
  return overlap.use_hierarchical_allreduce || overlap.hierarchical_allreduce_inter_nranks != 0 ||
         std::any_of(target.all_reduce.begin(), target.all_reduce.end(), through_groups);
}

// How many streams may be chosen from by what they carry: more than one only where nobody has chosen, or said what they carry.
uint32_t most_lanes(const CommTarget& target, const OverlapOptions& overlap) {
  const bool chooses = overlap.mode == BucketRule::automatic && overlap.fuse_all_reduce_ops &&
                       overlap.nccl_comm_num == 0 && !overlap.sync_nccl_allreduce;
  return chooses && target.flows == CommTarget().flows ? target.max_streams : 1;
}

// Until arrivals are known there is nothing to plan by: buckets by size, in the order in which backward comes by.
OverlapOptions without_arrivals(OverlapOptions options, const StepProfile& step) {
  const auto is_known = [](const Gradient& gradient) { return gradient.ready_ns > 0; };
  if (options.mode == BucketRule::automatic &&
      std::none_of(step.gradients.begin(), step.gradients.end(), is_known))
    options.mode = BucketRule::ddp;
  return options;
}

}  // namespace

GradientSync::State::~State() { static_cast<void>(let_go()); }

// Sees out what is in flight on the lanes, and says what the arena was used for elsewhere.
Status GradientSync::State::let_go() {
  Status first;
  const auto note = [&](Status status) {
    if (first.ok() && !status.ok()) first = std::move(status);
  };
  for (Lane& lane : lanes) note(lane.stream.sync());
  note(sums.sync());
  for (Stream* user : {&compute, &reader, &updater}) {
    if (!*user) continue;
    note(arena.used_on(*user));
    note(averaging.used_on(*user));
    if (asked.sharded) note(shards.used_on(*user));
    note(sparse.used_on(*user));
  }
  return first;
}

Result<CommPlan> GradientSync::State::first_plan(const OverlapOptions& overlap) const {
  TN_TRY(check_sparse(step.gradients));
  TN_TRY(check_hook(options.hook, overlap.sharded));
  return plan_communication(step, target, overlap);
}

// What each rank predicts is of its own processor, and plans are made of what all have alike: the latest.
Status GradientSync::State::share_arrivals() {
  const uint64_t own[] = {step.gradients.size()};
  const std::vector<uint64_t> counts = TN_TRY(overlap::everyones(device, lanes[0], own));
  if (std::ranges::any_of(counts, [&](uint64_t count) { return count != own[0]; })) return {};  // agree tells
  std::vector<double> times;
  for (const Gradient& gradient : step.gradients)
    times.insert(times.end(), {gradient.ready_ns, gradient.needed_ns});
  TN_TRY(overlap::greatest(device, lanes[0], times));
  for (size_t i = 0; i < step.gradients.size(); ++i) {
    step.gradients[i].ready_ns = times[2 * i];
    step.gradients[i].needed_ns = times[2 * i + 1];
  }
  return {};
}

// Later work on `stream` may write to the arena: what reads it was enqueued before.
Status GradientSync::State::follow(Stream& stream) {
  TN_TRY(stream.wait(done));
  for (Stream* user : {&reader, &updater}) {
    if (*user) TN_TRY(stream.wait(TN_TRY(user->record())));
  }
  return {};
}

Status GradientSync::State::open(std::span<const Gradient> parameters) {
  step.gradients.assign(parameters.begin(), parameters.end());
  step.loss_scaling = options.loss_scaling;
  step.clip_global_norm = options.clip_global_norm;
  step.uneven_batches = options.uneven_batches;
  step.updates_wait = options.updates_wait;
  if (options.average != Average::none && overlap::gate_of(step).empty())
    step.updates_wait = "sums are divided in finish";
  arrivals = overlap::Arrivals(step.gradients.size());
  target = target_of(device, comm, asked, options.target);
  basis = {.costs_given = overlap::has_costs(target, asked.sharded),
           .grouped = asks_for_groups(target, asked, options.hook),
           .most_lanes = most_lanes(target, asked)};
  if (!basis.costs_given) overlap::set_nominal_costs(target);
  lanes.push_back(TN_TRY(Lane::open(device, comm, 0)));
  if (!basis.grouped) keep_routes_there_are();
  if (comm.size() > 1) TN_TRY(share_arrivals());
  const OverlapOptions first = without_arrivals(asked, step);
  auto draft = first_plan(first);
  if (comm.size() > 1 && (!basis.costs_given || basis.grouped)) {
    // Agreed on before anything is sent whose size or partners follow from it.
    draft = TN_TRY(overlap::agree(device, lanes[0], std::move(draft), options, basis));
    TN_TRY(find_costs(draft->arena().bytes));
    draft = first_plan(first);
  }
  TN_TRY(adopt(std::move(draft)));
  if (is_ordered()) sums = TN_TRY(Sums::open(device, comm, timeline, asked.sync_nccl_allreduce));
  return {};
}

void GradientSync::State::keep_routes_there_are() {
  std::erase_if(target.all_reduce, [&](const auto& cost) { return !lanes[0].goes(cost.route); });
}

Status GradientSync::State::find_costs(uint64_t bytes) {
  if (basis.grouped) TN_TRY(lanes[0].group(grouping(bytes)));
  if (basis.grouped && !basis.costs_given && !lanes[0].groups.costs().empty()) {
    const auto costs = lanes[0].groups.costs();
    target.all_reduce.assign(costs.begin(), costs.end());
  } else if (!basis.costs_given) {
    TN_TRY(overlap::measure_costs(device, lanes[0], bytes, asked.sharded, options.hook, target));
  }
  if (!basis.costs_given) TN_TRY(find_company(bytes));
  keep_routes_there_are();
  if (basis.grouped) target.ranks_per_group = lanes[0].groups.ranks_per_group();
  return {};
}

// What collectives meet: each other, what computes, and the division behind them. By way of no group, where there is a cost of that.
Status GradientSync::State::find_company(uint64_t bytes) {
  if (options.average != Average::none) {
    const double ns_per_byte = TN_TRY(overlap::measure_division(device, lanes[0], bytes));
    target.division = {.ns_per_byte = ns_per_byte, .by_bucket = options.average == Average::ranks};
  }
  const auto flat = std::find_if(target.all_reduce.begin(), target.all_reduce.end(),
                                 [](const auto& one) { return one.route == Route::flat; });
  if (!asked.sharded && flat == target.all_reduce.end()) return {};
  const overlap::Collective collective =
      asked.sharded ? overlap::reduce_scatter() : overlap::all_reduce_by(options.hook);
  const CostTable& cost = asked.sharded ? target.reduce_scatter : flat->cost;
  target.contention = TN_TRY(overlap::measure_contention(device, lanes[0], bytes, collective, cost));
  if (basis.most_lanes == 1) return {};
  const auto open = [&](uint32_t number) { return another_lane(number); };
  target.flows =
      TN_TRY(overlap::measure_flows(device, lanes, basis.most_lanes, bytes, collective, cost, open));
  return {};
}

HierarchyOptions GradientSync::State::grouping(uint64_t bytes) const {
  HierarchyOptions out{.hierarchical_allreduce_inter_nranks = asked.hierarchical_allreduce_inter_nranks};
  if (basis.costs_given) out.costs = options.target.all_reduce;
  out.measured_bytes = std::clamp<uint64_t>(bytes, 1 << 12, out.measured_bytes);
  return out;
}

Result<Lane> GradientSync::State::another_lane(uint32_t number) {
  Lane lane = TN_TRY(Lane::open(device, comm, number));
  HierarchyOptions grouped = grouping(0);
  grouped.costs = target.all_reduce;  // those of the first
  if (basis.grouped) TN_TRY(lane.group(std::move(grouped)));
  return lane;
}

// Makes it the plan; true when that gave gradients new places. All ranks together.
Result<bool> GradientSync::State::adopt(Result<CommPlan> planned) {
  CommPlan next = TN_TRY(overlap::agree(device, lanes[0], std::move(planned), options, basis));
  const bool moves = !plan || plan.hash() != next.hash();
  if (moves) {
    std::vector<Lane> more = lanes;
    while (more.size() < next.streams())
      more.push_back(TN_TRY(another_lane(static_cast<uint32_t>(more.size()))));
    Stream& line = more[0].stream;
    Buffer fresh = TN_TRY(device.allocate(line, next.arena().bytes));
    TN_TRY(line.fill(fresh));
    Averaging average = TN_TRY(Averaging::prepare(device, line, next, fresh, comm.rank(), options.average));
    done = TN_TRY(line.record());
    TN_TRY(let_go());
    copied += issuer.copied();
    copied += sparse.copied();
    lanes = std::move(more);
    const std::span<Lane> used = std::span(lanes).first(next.streams());
    issuer = TN_TRY(Issuer::prepare(device, used, next, fresh, options.hook, options.timeline));
    if (average.by_bucket() || (options.average == Average::none && next.gate().empty()))
      issuer.keep_points();
    if (asked.sharded) shards = TN_TRY(Shards::prepare(device, used, next, fresh, options.timeline));
    sparse = TN_TRY(SparseLane::prepare(device, lanes[0], next, options.average, options.timeline));
    arena = std::move(fresh);
    averaging = std::move(average);
  }
  plan = std::move(next);
  device.state()->log(LogLevel::info, "gradients, " + plan.summary());
  return moves;
}

bool GradientSync::State::is_measured() const noexcept {
  if (asked.sharded) return false;  // a shard never moves
  if (steps < options.warm_up_steps) return true;
  const uint32_t every = options.measure_every;
  return every != 0 && (steps - options.warm_up_steps) % every == every - 1;
}

Result<bool> GradientSync::State::replan(bool judged) {
  StepProfile now = step;
  if (!TN_TRY(arrivals.take(device, lanes[0], now))) return false;
  now = overlap::alone(plan, std::move(now), target);
  if (judged) {
    const Replan judgement = TN_TRY(judge_replan(plan, now, target, true, 0));
    device.state()->log(LogLevel::debug, "gradients, " + judgement.reason);
    if (!judgement.due) return false;
  }
  step = std::move(now);
  return adopt(plan_communication(step, target, asked));
}

}  // namespace tenon
