// SPDX-License-Identifier: Apache-2.0
// timing.cpp: the predicted step.
//
// The next forward begins when backward and update are over, or later by as much as any of its parameters would otherwise
// come too late. What that is later than without communication is exposed. Gathers that run under update and forward are taken to
// cost these nothing.
#include "overlap/timing.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <numeric>

namespace tenon::overlap {
namespace {

Transfer transfer(const Load& load, const CostTable& cost) {
  return {.ready = load.ready,
          .latency = cost.latency_ns(),
          .work = cost.ns(load.bytes) - cost.latency_ns(),
          .stream = load.stream};
}

// Fills in when each bucket is gathered, and when its parameters are there.
void gather(std::span<const Load> loads, std::span<const double> updated, const Costs& costs,
            const Sending& sending, std::vector<Transfer> transfers, double backward, Timing& out,
            std::vector<double>& there) {
  out.gathers.resize(loads.size());
  std::iota(out.gathers.begin(), out.gathers.end(), 0u);
  std::stable_sort(out.gathers.begin(), out.gathers.end(),
                   [&](uint32_t a, uint32_t b) { return loads[a].read_before(loads[b]); });
  for (const uint32_t i : out.gathers) {
    transfers.push_back(transfer(loads[i], costs.gather()));
    transfers.back().ready = 0;
    transfers.back().after = updated[i];
    out.prediction.communication_ns += costs.gather().ns(loads[i].bytes);
  }
  const std::vector<Span> spans = simulate(transfers, sending, backward).spans;
  out.gathered.resize(loads.size());
  for (size_t k = 0; k < out.gathers.size(); ++k) {
    const uint32_t i = out.gathers[k];
    out.gathered[i] = spans[loads.size() + k];
    there[i] = out.gathered[i].end;
  }
}

// When the averages of each bucket are there: divided one after the other when backward is over.
std::vector<double> averaged(std::span<const Load> loads, std::span<const Span> sent, const Division& how,
                             double backward) {
  std::vector<double> out;
  for (const Span& span : sent) out.push_back(span.end);
  if (!how) return out;
  double at = backward;
  if (!how.by_bucket) {
    for (const Span& span : sent) at = std::max(at, span.end);
  }
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = at = std::max(at, out[i]) + static_cast<double>(loads[i].bytes) * how.ns_per_byte;
  return out;
}

}  // namespace

Costs::Costs(const CommTarget& target, const OverlapOptions& options) {
  const uint32_t asked = options.hierarchical_allreduce_inter_nranks;
  ranks_per_group_ = asked != 0 ? asked : target.ranks_per_group;
  division_ = target.division;
  if (options.sharded && target.ranks > 1) division_.ns_per_byte /= target.ranks;  // of the own shard alone
  if (options.sharded) {
    cheapest_ = target.reduce_scatter;
    gather_ = target.all_gather;
    return;
  }
  for (const CommTarget::Measured& measured : target.all_reduce) {
    const bool hierarchical = measured.route != Route::flat;
    if (!measured.cost || (options.use_hierarchical_allreduce && !hierarchical)) continue;
    routes_.push_back(measured);
  }
  if (routes_.empty()) {  // asked for groups where there are none
    std::copy_if(target.all_reduce.begin(), target.all_reduce.end(), std::back_inserter(routes_),
                 [](const CommTarget::Measured& measured) { return bool(measured.cost); });
  }
  std::vector<CostTable> tables;
  for (const CommTarget::Measured& measured : routes_) tables.push_back(measured.cost);
  cheapest_ = CostTable::cheapest(tables);
}

Route Costs::route(uint64_t bytes) const noexcept {
  const auto best = std::min_element(routes_.begin(), routes_.end(), [&](const auto& a, const auto& b) {
    return a.cost.ns(bytes) < b.cost.ns(bytes);
  });
  return best == routes_.end() ? Route::flat : best->route;
}

Sending sending(uint32_t streams, const CommTarget& target, const OverlapOptions& options) noexcept {
  return {.streams = streams,
          .flows = target.flows,
          .contention = target.contention,
          .sync = options.sync_nccl_allreduce,
          .sharded = options.sharded};
}

std::vector<Transfer> transfers_of(std::span<const Load> loads, const Costs& costs) {
  std::vector<Transfer> out;
  for (const Load& load : loads) out.push_back(transfer(load, costs.before_update()));
  return out;
}

Timing time_of(std::span<const Load> loads, const StepProfile& step, const Costs& costs,
               const Sending& sending) {
  Timing out;
  std::vector<Transfer> transfers = transfers_of(loads, costs);
  double bytes = 0;
  for (const Load& load : loads) {
    bytes += static_cast<double>(load.bytes);
    out.prediction.communication_ns += costs.before_update().ns(load.bytes);
  }
  const double alone = backward_of(step);
  Simulated simulated = simulate(transfers, sending, alone);
  out.sent = std::move(simulated.spans);
  out.progress = std::move(simulated.progress);
  for (const Span& span : out.sent) out.prediction.end_ns = std::max(out.prediction.end_ns, span.end);

  const double backward = out.prediction.backward_ns = out.progress.clock(alone);
  const std::vector<double> averages = averaged(loads, out.sent, costs.division(), backward);
  for (const double at : averages) out.prediction.averaged_ns = std::max(out.prediction.averaged_ns, at);
  const bool gated = !gate_of(step).empty();
  std::vector<double> there;  // when each bucket's parameters are new
  for (size_t i = 0; i < loads.size(); ++i) {
    const double share = bytes > 0 ? static_cast<double>(loads[i].bytes) / bytes : 0;
    there.push_back(gated ? std::max(out.prediction.averaged_ns, backward) + step.update_ns
                          : averages[i] + step.update_ns * share);
  }
  if (sending.sharded)
    gather(loads, std::vector<double>(there), costs, sending, std::move(transfers), alone, out, there);
  double forward_begins = backward + step.update_ns;
  for (size_t i = 0; i < loads.size(); ++i) {
    const bool early = !gated || sending.sharded;  // else the update is one, and everything waits for it
    forward_begins = std::max(forward_begins, there[i] - (early ? loads[i].needed : 0));
  }
  out.prediction.exposed_ns = forward_begins - (alone + step.update_ns);
  out.prediction.step_ns = forward_begins + step.forward_ns;
  return out;
}

std::string gate_of(const StepProfile& step) {
  std::vector<std::string> reasons;
  if (step.loss_scaling) reasons.push_back("loss scaling");
  if (step.clip_global_norm) reasons.push_back("clipping by global norm");
  if (step.uneven_batches) reasons.push_back("possibly uneven batches");
  if (!step.updates_wait.empty()) reasons.push_back(step.updates_wait);
  return base::join(reasons, ", ");
}

double backward_of(const StepProfile& step) noexcept {
  double end = step.backward_ns;
  for (const Gradient& gradient : step.gradients) end = std::max(end, gradient.ready_ns);
  return end;
}

}  // namespace tenon::overlap
