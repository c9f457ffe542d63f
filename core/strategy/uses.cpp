// SPDX-License-Identifier: Apache-2.0
// uses.cpp: a strategy as the options of the rooms that act on it.
#include <tenon/strategy.hpp>

#include "strategy/options.hpp"

#include <algorithm>

namespace tenon {
namespace {

using strategy::Option;
using strategy::options;
using strategy::Reader;

// Whether a plugin's pattern is `name`, or a form of it: "gemm_epilogue_backward" is one of "gemm_epilogue".
bool is_form_of(std::string_view pattern, std::string_view name) {
  return pattern.starts_with(name) && (pattern.size() == name.size() || pattern[name.size()] == '_');
}

// Whether every option that lets `pattern` happen is off, and there is one.
bool is_off(const Strategy& strategy, std::string_view pattern) {
  bool is_named = false;
  for (const Option& option : options()) {
    if (option.reader != Reader::pattern) continue;
    const auto names = strategy::words(option.detail);
    if (std::none_of(names.begin(), names.end(), [&](const auto& name) { return is_form_of(pattern, name); }))
      continue;
    if (option.word(strategy) == "true") return false;
    is_named = true;
  }
  return is_named;
}

// Memory orders that everybody knows, however they are written; any other name is a plugin's own.
std::string order_of(const std::string& layout) {
  if (layout == "NHWC") return "nhwc";
  return layout == "NCHW" ? "nchw" : layout;
}

}  // namespace

FusionOptions Strategy::fusion(const FusionTarget& target) const {
  FusionOptions out;
  out.elementwise = enable_auto_fusion;
  out.patterns = fuse_patterns;
  out.optimizers = fuse_all_optimizer_ops;
  out.off = fusion_off;
  for (const FusionPattern& pattern : target.patterns) {
    if (is_off(*this, pattern.name)) out.off.push_back(pattern.name);
  }
  out.must_fuse = must_fuse;
  out.never_fuse = never_fuse;
  out.max_nodes = fusion_max_nodes;
  out.min_gain_ns = fusion_min_gain_us * 1000;
  return out;
}

passes::Options Strategy::passes() const {
  passes::Options out;
  if (enable_prune || !stop_gradient.empty()) out.prune = {.stop_gradient = stop_gradient};
  if (amp)
    out.amp = {.level = amp_level, .half = amp_dtype, .white = custom_white_list, .black = custom_black_list};
  if (enable_pad == true) out.pad.emplace();
  const std::string order = order_of(layout);
  if (order != "auto" && order != "nchw") out.layout = {.prefer = order};
  if (enable_addto) out.addto = {.max_inplace_grad_add = max_inplace_grad_add};
  if (enable_inplace) out.in_place.emplace();
  return out;
}

OverlapOptions Strategy::overlap() const {
  OverlapOptions out;
  out.mode = bucket_mode;
  out.fuse_all_reduce_ops = fuse_all_reduce_ops;
  out.fuse_grad_size_in_mb = fuse_grad_size_in_mb.value_or(0);
  out.fuse_grad_max_layers = fuse_grad_max_layers.value_or(0);
  out.nccl_comm_num = nccl_comm_num.value_or(0);
  out.sync_nccl_allreduce = sync_nccl_allreduce;
  out.use_hierarchical_allreduce = use_hierarchical_allreduce;
  const uint32_t group = hierarchical_allreduce_inter_nranks.value_or(0);
  out.hierarchical_allreduce_inter_nranks = group == 1 ? 0 : group;  // groups of one rank are no groups
  out.fuse_broadcast_ops = fuse_broadcast_ops;
  out.sharded = sharded;
  out.partition_mb = partition_mb.value_or(0);
  out.priority = priority;
  out.replan_drift = replan_drift;
  return out;
}

SyncOptions Strategy::sync() const {
  SyncOptions out;
  out.warm_up_steps = warm_up_steps;
  out.measure_every = measure_every;
  out.loss_scaling = amp && amp_dtype == f16;
  out.clip_global_norm = clip_global_norm;
  out.uneven_batches = uneven_batches;
  if (enable_backward_optimizer_op_deps) out.updates_wait = "enable_backward_optimizer_op_deps";
  return out;
}

TrainingOptions Strategy::training() const {
  TrainingOptions out;
  out.stop_gradient = stop_gradient;
  out.sync_batch_norm = sync_batch_norm;
  out.uneven_batches = uneven_batches;
  if (!sync().loss_scaling) return out;
  out.scaling = {.dynamic = use_dynamic_loss_scaling,
                 .init = init_loss_scaling,
                 .incr_every_n_steps = incr_every_n_steps,
                 .decr_every_n_nan_or_inf = decr_every_n_nan_or_inf,
                 .incr_ratio = incr_ratio,
                 .decr_ratio = decr_ratio};
  return out;
}

std::map<std::string, std::string> Strategy::runtime() const {
  std::map<std::string, std::string> out;
  if (fraction_of_gpu_memory_to_use != 1)
    out["pool.reserve_fraction"] = strategy::find("fraction_of_gpu_memory_to_use")->word(*this);
  if (device_threads) out["cpu.threads"] = std::to_string(*device_threads);
  for (const std::string plugin : {"cpu", "cuda"}) {
    if (cudnn_exhaustive_search) out[plugin + ".search"] = *cudnn_exhaustive_search ? "full" : "off";
    if (conv_workspace_size_limit)
      out[plugin + ".workspace_limit"] = std::to_string(uint64_t{*conv_workspace_size_limit} << 20);
  }
  return out;
}

}  // namespace tenon
