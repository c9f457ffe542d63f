// SPDX-License-Identifier: Apache-2.0
// effective.cpp: what options come to: which have no effect, or another than was asked for, and why.
//
// Invariant: a value that differs from what was asked for has a reason.
#include <tenon/strategy.hpp>

#include "base/text.hpp"
#include "strategy/access.hpp"

#include <algorithm>

namespace tenon {
namespace {

using strategy::Option;
using strategy::Reader;

constexpr const char* none = "no effect";

struct Outcome {
  std::string holds, reason;  // no reason: as asked
};

Outcome unless(bool is_void, const char* reason, const char* holds = none) {
  return is_void ? Outcome{holds, reason} : Outcome{};
}

bool has_limits(const Strategy& s) {
  return s.fuse_all_reduce_ops &&
         (s.bucket_mode == BucketRule::automatic || s.bucket_mode == BucketRule::documents);
}

Outcome of_add_act(const Strategy& s) {
  if (s.fuse_elewise_add_act_ops == s.enable_auto_fusion) return {};
  return s.enable_auto_fusion
             ? Outcome{"true",
                       "the groups of enable_auto_fusion take it along: switch that off, or name nodes in "
                       "never_fuse"}
             : Outcome{"false", "the groups that do it are off: set enable_auto_fusion = true"};
}

Outcome of_limit(const Strategy& s) {
  if (!s.fuse_all_reduce_ops) return {none, "fuse_all_reduce_ops = false: each gradient goes alone"};
  return unless(!has_limits(s), "this bucket_mode cuts by a rule of its own");
}

Outcome of_groups(const Strategy& s) {
  if (s.sharded) return unless(s.use_hierarchical_allreduce, "sharded mode has no all-reduce", "false");
  return {};
}

Outcome of_group_size(const Strategy& s) {
  if (s.sharded) return {none, "sharded mode has no all-reduce"};
  const bool is_one = s.hierarchical_allreduce_inter_nranks == 1u;
  return unless(is_one, "groups of one rank are no groups: those of a host are taken where groups are",
                "\"auto\"");
}

Outcome of_broadcasts(const Strategy& s) {
  if (!s.sharded) return {none, "only sharded mode sends parameters back"};
  return unless(!s.fuse_broadcast_ops, "a shard is a range of its bucket, which is gathered whole", "true");
}

Outcome of_pieces(const Strategy& s) {
  if (s.sharded) return {none, "sharded mode cuts every bucket into shards already"};
  return unless(!s.fuse_all_reduce_ops || s.bucket_mode != BucketRule::automatic,
                "only bucket_mode automatic cuts gradients");
}

// What makes updates wait for all gradients, whatever is asked for; "" when nothing does.
std::string gates(const Strategy& s) {
  std::vector<std::string> out;
  if (s.amp && s.amp_dtype == f16) out.emplace_back("loss scaling of amp_dtype f16");
  if (s.clip_global_norm) out.emplace_back("clip_global_norm");
  if (s.uneven_batches) out.emplace_back("uneven_batches");
  return base::join(out, ", ");
}

Outcome of_updates(const Strategy& s) {
  if (s.enable_backward_optimizer_op_deps || gates(s).empty()) return {};
  return {"true", "all updates wait for the last bucket: " + gates(s)};
}

Outcome of_priority(const Strategy& s) {
  if (!s.priority) return {};
  const std::string gate =
      s.enable_backward_optimizer_op_deps ? "enable_backward_optimizer_op_deps" : gates(s);
  if (gate.empty()) return {};
  return {none, "all updates wait for the last bucket: " + gate};
}

Outcome of_drift(const Strategy& s) {
  if (s.sharded) return {none, "sharded mode keeps its first plan"};
  return unless(s.measure_every == 0, "measure_every = 0: no plan is judged");
}

Outcome of_scaling(const Strategy& s) {
  if (!s.amp) return {none, "amp = false"};
  return unless(s.amp_dtype != f16, "bf16 has the range of f32, so the loss needs no scaling");
}
Outcome of_dynamic_scaling(const Strategy& s) {
  const Outcome scaling = of_scaling(s);
  return scaling.reason.empty() ? unless(!s.use_dynamic_loss_scaling, "use_dynamic_loss_scaling = false")
                                : scaling;
}

Outcome of_lists(const Strategy& s) { return unless(!s.amp, "amp = false"); }
Outcome of_shards(const Strategy& s) { return unless(s.sharded, "sharded mode keeps its first plan"); }

// Options that depend on others. What has no row is as its reader says.
constexpr struct {
  std::string_view option;
  Outcome (*outcome)(const Strategy&);
} rules[] = {
    {"fuse_elewise_add_act_ops", of_add_act},
    {"enable_prune",
     [](const Strategy& s) {
       return unless(!s.enable_prune && !s.stop_gradient.empty(), "stop_gradient needs it", "true");
     }},
    {"enable_pad",
     [](const Strategy& s) {
       return unless(!s.enable_pad, "it is off unless it is set, or auto = true finds that it pays", "false");
     }},
    {"layout",
     [](const Strategy& s) {
       return unless(s.layout == "auto", "the device says which, unless auto = true finds that another pays",
                     "\"auto\"");
     }},
    {"max_inplace_grad_add",
     [](const Strategy& s) { return unless(!s.enable_addto, "enable_addto = false"); }},
    {"amp_level", of_lists},
    {"amp_dtype", of_lists},
    {"custom_white_list", of_lists},
    {"custom_black_list", of_lists},
    {"use_dynamic_loss_scaling", of_scaling},
    {"init_loss_scaling", of_scaling},
    {"incr_every_n_steps", of_dynamic_scaling},
    {"decr_every_n_nan_or_inf", of_dynamic_scaling},
    {"incr_ratio", of_dynamic_scaling},
    {"decr_ratio", of_dynamic_scaling},
    {"bucket_mode",
     [](const Strategy& s) {
       return unless(!s.fuse_all_reduce_ops && s.bucket_mode != BucketRule::per_tensor,
                     "fuse_all_reduce_ops = false: each gradient goes alone", "\"per_tensor\"");
     }},
    {"fuse_grad_size_in_MB", of_limit},
    {"fuse_grad_max_layers", of_limit},
    {"use_hierarchical_allreduce", of_groups},
    {"hierarchical_allreduce_inter_nranks", of_group_size},
    {"fuse_broadcast_ops", of_broadcasts},
    {"partition_MB", of_pieces},
    {"priority", of_priority},
    {"enable_backward_optimizer_op_deps", of_updates},
    {"replan_drift", of_drift},
    {"warm_up_steps", of_shards},
    {"measure_every", of_shards},
};

Outcome fixed(const Option& option, const std::string& asked) {
  const size_t colon = option.detail.find(": ");
  const std::string value(option.detail.substr(0, colon));
  return value == asked ? Outcome{} : Outcome{value, std::string(option.detail.substr(colon + 2))};
}

Outcome outcome(const Strategy& strategy, const Option& option, const std::string& asked) {
  if (option.reader == Reader::nobody) return {none, "it waits for " + std::string(option.detail)};
  if (option.reader == Reader::fixed) return fixed(option, asked);
  if (option.reader == Reader::pattern)
    return unless(asked == "true" && !strategy.fuse_patterns,
                  "fuse_patterns = false switches off what a device publishes", "false");
  const auto* rule = std::find_if(std::begin(rules), std::end(rules),
                                  [&](const auto& row) { return row.option == option.name; });
  return rule == std::end(rules) ? Outcome{} : rule->outcome(strategy);
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string line(const Strategy::Effective& row, size_t name_width) {
  const bool is_asked = row.by != "default" && !row.by.starts_with("preset ");
  std::string out = is_asked && !row.reason.empty() ? "! " : "  ";
  out += padded(row.option, name_width) + "  " + padded(row.holds, 11) + "  " + base::printable(row.by);
  if (row.reason.empty()) return out + "\n";
  return out + ": " + (is_asked ? "asked for " + row.asked + "; " : "") + row.reason + "\n";
}

}  // namespace

std::vector<Strategy::Effective> Strategy::effective() const {
  std::vector<Effective> out;
  for (const Option& option : strategy::options()) {
    const std::string asked = option.word(*this);
    Outcome found = outcome(*this, option, asked);
    if (found.reason.empty()) found.holds = asked;
    out.push_back({std::string(option.section), std::string(option.name), asked, std::move(found.holds),
                   Access::who(*this, option), std::move(found.reason)});
  }
  return out;
}

std::string Strategy::explain() const {
  const std::vector<Effective> rows = effective();
  size_t width = 0;
  for (const Effective& row : rows) width = std::max(width, row.option.size());
  std::string out, section;
  for (const Effective& row : rows) {
    if (row.section != section) out += "[" + row.section + "]\n";
    section = row.section;
    out += line(row, width);
  }
  return out;
}

}  // namespace tenon
