// SPDX-License-Identifier: Apache-2.0
// checks.cpp: mistakes become errors with a remedy, options without effect become notes.
#include "overlap/checks.hpp"

#include "base/text.hpp"
#include "overlap/state.hpp"

#include <bit>
#include <cmath>
#include <initializer_list>
#include <unordered_set>
#include <utility>

namespace tenon::overlap {
namespace {

constexpr uint32_t most_ranks = 65535;
constexpr uint64_t most_bytes = uint64_t{1} << 50;

bool is_time(double ns) { return std::isfinite(ns) && ns >= 0; }

Status wrong(const std::string& what) { return Status(TN_INVALID, what); }

Status check_gradient(const Gradient& gradient) {
  const std::string called = "gradient " + base::quoted(gradient.name);
  if (gradient.name.empty()) return wrong("a gradient has no name: ranks are compared by names");
  const DType dtype = gradient.dtype;
  if (dtype != f16 && dtype != bf16 && dtype != f32 && dtype != f64)
    return wrong(called + " is of " + std::string(name(dtype)) + ": gradients are f16, bf16, f32 or f64");
  if (gradient.elements > most_bytes / 8)
    return wrong(called + " has " + std::to_string(gradient.elements) + " elements, at most " +
                 std::to_string(most_bytes / 8));
  for (const auto& [what, ns] : {std::pair{"ready", gradient.ready_ns}, {"needed", gradient.needed_ns}}) {
    if (!is_time(ns)) return wrong(called + ": " + what + "_ns = " + std::to_string(ns) + " is not a time");
  }
  return {};
}

Status check_step(const StepProfile& step) {
  if (step.gradients.empty()) return wrong("the step has no gradients: there is nothing to plan");
  for (const auto& [what, ns] : {std::pair{"forward_ns", step.forward_ns},
                                 {"backward_ns", step.backward_ns},
                                 {"update_ns", step.update_ns}}) {
    if (!is_time(ns))
      return wrong(std::string("step: ") + what + " = " + std::to_string(ns) + " is not a time");
  }
  std::unordered_set<std::string_view> names;
  uint64_t all = 0;
  for (const Gradient& gradient : step.gradients) {
    TN_TRY(check_gradient(gradient));
    if (!names.insert(gradient.name).second)
      return wrong("two gradients are called " + base::quoted(gradient.name) +
                   ": ranks are compared by names");
    all += bytes(gradient.dtype, gradient.elements);
    if (all > most_bytes)
      return wrong("the gradients take more than " + std::to_string(most_bytes) + " bytes");
  }
  return {};
}

Status check_target(const CommTarget& target) {
  if (target.ranks < 1 || target.ranks > most_ranks)
    return wrong(target.name + ": ranks = " + std::to_string(target.ranks) + " is not from 1 to " +
                 std::to_string(most_ranks));
  if (target.alignment < 8 || !std::has_single_bit(target.alignment))
    return wrong(target.name + ": alignment = " + std::to_string(target.alignment) +
                 " is not a power of two from 8 on");
  if (target.max_streams < 1 || target.max_streams > most_streams)
    return wrong(target.name + ": max_streams = " + std::to_string(target.max_streams) +
                 " is not from 1 to " + std::to_string(most_streams));
  if (!std::isfinite(target.flows) || target.flows <= 0)
    return wrong(target.name + ": flows = " + std::to_string(target.flows) + " is not a positive number");
  const Contention& contention = target.contention;
  if (!(contention.occupies >= 0 && contention.occupies <= 1))
    return wrong(target.name + ": contention.occupies = " + std::to_string(contention.occupies) +
                 " is no part: from 0 to 1");
  if (!std::isfinite(contention.slowed) || contention.slowed < 1)
    return wrong(target.name + ": contention.slowed = " + std::to_string(contention.slowed) +
                 " times as long: 1 or more");
  if (!std::isfinite(contention.delay_ns) || contention.delay_ns < 0)
    return wrong(target.name + ": contention.delay_ns = " + std::to_string(contention.delay_ns) +
                 " is no time: 0 or more");
  if (!std::isfinite(target.division.ns_per_byte) || target.division.ns_per_byte < 0)
    return wrong(target.name + ": division.ns_per_byte = " + std::to_string(target.division.ns_per_byte) +
                 " is no time: 0 or more");
  uint32_t seen = 0;
  for (const CommTarget::Measured& measured : target.all_reduce) {
    const uint32_t bit = 1u << static_cast<uint32_t>(measured.route);
    if ((seen & bit) != 0)
      return wrong(target.name + ": the route " + std::string(name(measured.route)) + " is listed twice");
    seen |= bit;
  }
  return {};
}

Status check_costs(const CommTarget& target, bool sharded) {
  bool any = sharded && target.reduce_scatter && target.all_gather;
  if (!sharded) {
    for (const CommTarget::Measured& measured : target.all_reduce) any = any || measured.cost;
  }
  if (any) return {};
  return wrong(target.name + (sharded ? ": reduce_scatter and all_gather need a cost table each"
                                      : ": all_reduce needs a cost table, measured or linear"));
}

bool has_groups(const CommTarget& target) {
  for (const CommTarget::Measured& measured : target.all_reduce) {
    if (measured.route != Route::flat && measured.cost) return true;
  }
  return false;
}

class Notes {
 public:
  Notes(const CommTarget& target, OverlapOptions& options, std::vector<CommPlan::Note>& notes)
      : target_(target), options_(options), notes_(notes) {}

  void rules() {
    const bool chosen = options_.mode == BucketRule::automatic || options_.mode == BucketRule::documents;
    if (!options_.fuse_all_reduce_ops) options_.mode = BucketRule::per_tensor;
    const std::string why = "mode " + std::string(name(options_.mode)) + " cuts by a rule of its own";
    const bool by_limits = chosen && options_.fuse_all_reduce_ops;
    if (!by_limits) clear("fuse_grad_size_in_MB", options_.fuse_grad_size_in_mb, why);
    if (!by_limits) clear("fuse_grad_max_layers", options_.fuse_grad_max_layers, why);
    if (options_.mode != BucketRule::automatic) clear("partition_MB", options_.partition_mb, why);
    if (options_.mode != BucketRule::documents) return;
    if (options_.fuse_grad_size_in_mb == 0) options_.fuse_grad_size_in_mb = 32;
    if (options_.fuse_grad_max_layers == 0) options_.fuse_grad_max_layers = 50;
  }

  void streams() {
    if (options_.nccl_comm_num <= target_.max_streams) return;
    add("nccl_comm_num", options_.nccl_comm_num, std::to_string(target_.max_streams),
        target_.name + " takes no more");
    options_.nccl_comm_num = target_.max_streams;
  }

  void groups() {
    if (options_.sharded) {
      if (options_.use_hierarchical_allreduce)
        add("use_hierarchical_allreduce", "true", "false", "sharded mode has no all-reduce");
      options_.use_hierarchical_allreduce = false;
    } else if (options_.use_hierarchical_allreduce && !has_groups(target_)) {
      add("use_hierarchical_allreduce", "true", "false", target_.name + " has no route with groups");
      options_.use_hierarchical_allreduce = false;
    }
    const uint32_t asked = options_.hierarchical_allreduce_inter_nranks;
    if (asked != 0 && target_.ranks_per_group != 0 && asked != target_.ranks_per_group)
      add("hierarchical_allreduce_inter_nranks", asked, std::to_string(asked),
          "costs were measured with groups of " + std::to_string(target_.ranks_per_group) +
              ": predictions may be off");
  }

  void sharded() {
    if (options_.sharded)
      clear("partition_MB", options_.partition_mb, "sharded mode cuts every bucket into shards already");
    if (options_.fuse_broadcast_ops) return;
    add("fuse_broadcast_ops", "false", "true",
        options_.sharded ? "a shard is a range of its bucket, which is gathered whole"
                         : "only sharded mode sends parameters back");
    options_.fuse_broadcast_ops = true;
  }

 private:
  void add(std::string option, std::string asked, std::string effective, std::string reason) {
    notes_.push_back({std::move(option) + " = " + std::move(asked), std::move(effective), std::move(reason)});
  }
  void add(std::string option, uint32_t asked, std::string effective, std::string reason) {
    add(std::move(option), std::to_string(asked), std::move(effective), std::move(reason));
  }
  void clear(const char* option, uint32_t& value, const std::string& why) {
    if (value != 0) add(option, value, "0", why);
    value = 0;
  }

  const CommTarget& target_;
  OverlapOptions& options_;
  std::vector<CommPlan::Note>& notes_;
};

}  // namespace

Status check(const StepProfile& step, const CommTarget& target, const OverlapOptions& options) {
  TN_TRY(check_step(step));
  TN_TRY(check_target(target));
  TN_TRY(check_costs(target, options.sharded));
  const uint32_t group = options.hierarchical_allreduce_inter_nranks;
  if (group != 0 && target.ranks % group != 0)
    return wrong("hierarchical_allreduce_inter_nranks = " + std::to_string(group) + " does not divide the " +
                 std::to_string(target.ranks) + " ranks of " + target.name);
  if (!std::isfinite(options.replan_drift) || options.replan_drift <= 0)
    return wrong("replan_drift = " + std::to_string(options.replan_drift) + " is not a positive number");
  return {};
}

OverlapOptions effective(const CommTarget& target, OverlapOptions options,
                         std::vector<CommPlan::Note>& notes) {
  Notes noted(target, options, notes);
  noted.rules();
  noted.streams();
  noted.groups();
  noted.sharded();
  return options;
}

}  // namespace tenon::overlap
