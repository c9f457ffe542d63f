// SPDX-License-Identifier: Apache-2.0
// plan.cpp: the verdict on a fragment, and the program that runs it.
//
// Invariant: a verdict other than NATIVE says in words which op, which dtype, and what is done instead.
#include "plan.hpp"

#include "aliases.hpp"
#include "depthwise.hpp"
#include "epilogue.hpp"
#include "families.hpp"
#include "isa.hpp"

#include "../driver.hpp"

#include <tenon/author/support.hpp>

#include <optional>

namespace tenon::cpu {

using author::text;

namespace {

constexpr uint64_t workspace_alignment = 256;

// Rough figures of one processor's worth, for a first choice between cuts; measured ones come with tuning.
constexpr double launch_ns = 250;
constexpr double bytes_per_ns = 20;
double flops_per_ns(uint32_t dtype) noexcept {
  const double floats = isa() == Isa::avx512 ? 150 : isa() == Isa::avx2 ? 60 : 15;
  if (dtype == TN_DTYPE_f64) return floats / 2;
  if (dtype == TN_DTYPE_bf16 && driver::has_bf16_tiles()) return 10 * floats;
  return dtype == TN_DTYPE_bf16 && driver::has_quick_bf16_pairs() ? 2 * floats : floats;
}

class Sequence final : public Program {
 public:
  Sequence(Builder& builder, double cost_ns)
      : constants_(builder.take_constants()),
        steps_(builder.take_steps()),
        workspace_bytes_(builder.workspace_bytes()),
        cost_ns_(cost_ns) {
    for (const auto& step : steps_) {
      const std::string engine = step->engine();
      if (engine_.find(engine) == std::string::npos) engine_ += (engine_.empty() ? "" : "+") + engine;
    }
    if (engine_.empty()) engine_ = "nothing to do";
    // First, because a long text is cut at its end.
    if (builder.measured_ns() > 0) engine_.insert(0, "measured ");
  }

  Status run(std::byte* const* bindings, std::byte* workspace, const Team& team) const override {
    const Run run{.bindings = bindings, .workspace = workspace, .team = team};
    for (const auto& step : steps_) TN_TRY(step->run(run));
    return {};
  }

  void info(tn_kernel_info& out) const override {
    out.workspace_bytes = workspace_bytes_;
    out.workspace_alignment = workspace_alignment;
    out.cost_ns = cost_ns_;
    author::set_text(out.engine, engine_);
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> constants_;
  std::vector<std::unique_ptr<Step>> steps_;
  uint64_t workspace_bytes_;
  double cost_ns_;
  std::string engine_;
};

// What nodes of one step read of each other, and, where nobody else wants it, wrote for each other.
double kept_inside(const FragmentView& fragment, const Group& group) {
  double bytes = 0;
  for (const tn_node& node : fragment.nodes().subspan(group.first, group.end - group.first)) {
    const uint32_t made = node.output_count > 0 ? node.outputs[0] : TN_ABSENT;
    if (made == TN_ABSENT || !read_in(fragment, made, {group.first, group.end})) continue;
    const TensorView tensor = fragment.tensor(made);
    const bool leaves = wanted_outside(fragment, made, {group.first, group.end});
    bytes += (leaves ? 1 : 2) * static_cast<double>(author::dtype_bytes(tensor.dtype(), tensor.elements()));
  }
  return bytes;
}

double predicted_ns(const FragmentView& fragment, const std::vector<Group>& groups) {
  double ns = launch_ns;
  for (const Group& group : groups) {
    double all_bytes = 0;
    for (uint32_t n = group.first; n < group.end; ++n) {
      const Cost one = cost_of(fragment, fragment.nodes()[n]);
      all_bytes += one.bytes;
      ns += one.flops / flops_per_ns(one.multiplied_in);
    }
    // A pass reads and writes what crosses its border; half of what its nodes name is a fair guess of it.
    const bool pass = group.family->fuses() && group.end - group.first > 1;
    ns += (pass ? all_bytes / 2 : all_bytes - kept_inside(fragment, group)) / bytes_per_ns;
  }
  return ns;
}

// Whether its nodes are rounded once, behind the last.
bool is_product(const Group& group) noexcept {
  return group.family->takes == product_nodes || group.family->takes == conv_nodes;
}

// The first node that is not computed in its own type, in words; "" when all are.
std::string conversion(const FragmentView& fragment, const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    const bool together = is_product(group) && group.end - group.first > 1;
    for (uint32_t n = group.first; n < group.end; ++n) {
      const uint32_t half = converted_half(fragment, fragment.nodes()[n]);
      if (half == TN_DTYPE_NONE) continue;
      if (!together)
        return text(node_name(fragment, n), " of ", author::dtype_name(half),
                    " is computed in f32 and rounded once");
      return text(node_name(fragment, group.first), " to ", node_name(fragment, group.end - 1), " of ",
                  author::dtype_name(half), " are computed in f32 and rounded once, after the last");
    }
  }
  return "";
}

// The first group that reads what another one made, if any does: groups that share nothing, such as the updates of many
// parameters, lose nothing by running one after another.
std::optional<size_t> dependent(const FragmentView& fragment, const std::vector<Group>& groups) {
  if (groups.size() < 2) return {};
  std::vector<bool> made(fragment.tensors().size());
  for (size_t at = 0; at < groups.size(); ++at) {
    const Group& group = groups[at];
    const auto nodes = fragment.nodes().subspan(group.first, group.end - group.first);
    for (const tn_node& node : nodes) {
      for (uint32_t i = 0; i < node.input_count; ++i) {
        if (node.inputs[i] != TN_ABSENT && made[node.inputs[i]]) return at;
      }
    }
    for (const tn_node& node : nodes) {
      for (uint32_t i = 0; i < node.output_count; ++i) {
        if (node.outputs[i] != TN_ABSENT) made[node.outputs[i]] = true;
      }
    }
  }
  return {};
}

Status build(Builder& builder, const Group& group, unsigned threads) {
  if (group.family->fuses()) return build_elementwise(builder, group);
  if (group.family->build_all != nullptr)
    return group.family->build_all(builder, group.first, group.end, threads);
  return group.family->build(builder, builder.fragment().nodes()[group.first], threads);
}

}  // namespace

Status judge(const tn_fragment& fragment, tn_support& out) {
  const FragmentView view(fragment);
  if (const Status checked = check_fragment(view); !checked.ok()) {
    if (checked.code() != TN_UNSUPPORTED) return Status(Error(checked.error()));
    return author::refuse(out, checked.message());
  }
  const std::vector<Group> groups = groups_of(view);
  const double ns = predicted_ns(view, groups);
  author::honour(out, honoured_aliases(view, groups));
  if (const auto second = dependent(view, groups)) {
    const std::string why = why_apart(view, groups, *second), node = node_name(view, groups[*second].first);
    return author::accept_emulated(
        out,
        text(node, why.empty() ? " reads what another step made" : ": ", why, "; ", view.nodes().size(),
             " nodes run as ", groups.size(), " steps through memory"),
        ns);
  }
  if (const std::string converted = conversion(view, groups); !converted.empty()) {
    return author::accept_converted(out, converted, ns);
  }
  return author::accept(out, ns);
}

Result<std::unique_ptr<const Program>> make_program(const tn_fragment& fragment, const Tuning& tuning,
                                                    unsigned threads) {
  const FragmentView view(fragment);
  TN_TRY(check_fragment(view));
  const std::vector<Group> groups = groups_of(view);
  Builder builder(fragment, tuning);
  for (const Group& group : groups) TN_TRY(build(builder, group, threads));
  TN_TRY(builder.copy_the_rest());
  if (builder.workspace_bytes() > tuning.workspace_limit) {
    return Status(TN_UNSUPPORTED,
                  text("a run needs ", builder.workspace_bytes(), " bytes of workspace, and the limit is ",
                       tuning.workspace_limit, ": raise it or cut the fragment"));
  }
  const bool measured = groups.size() == 1 && builder.measured_ns() > 0;
  const double ns = measured ? launch_ns + builder.measured_ns() : predicted_ns(view, groups);
  return std::unique_ptr<const Program>(std::make_unique<Sequence>(builder, ns));
}

}  // namespace tenon::cpu
