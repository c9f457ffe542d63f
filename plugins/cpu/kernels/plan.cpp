// SPDX-License-Identifier: Apache-2.0
// plan.cpp: the verdict on a fragment, and the program that runs it.
//
// Invariant: a verdict other than NATIVE says in words which op, which dtype, and what is done instead.
#include "plan.hpp"

#include "builder.hpp"
#include "gemm.hpp"
#include "matmul.hpp"

#include <tenon/author/support.hpp>

namespace tenon::cpu {

using author::text;

namespace {

constexpr uint64_t workspace_alignment = 256;

// Rough figures of one processor's worth, for a first choice between cuts; measured ones come with tuning.
constexpr double launch_ns = 250;
constexpr double bytes_per_ns = 20;
constexpr double flops_per_ns = 150;

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

double bytes_of(const FragmentView& fragment, const tn_node& node) {
  double bytes = 0;
  const auto add = [&](uint32_t tensor) {
    const TensorView view = fragment.tensor(tensor);
    bytes += static_cast<double>(author::dtype_bytes(view.dtype(), view.elements()));
  };
  for (uint32_t i = 0; i < node.input_count; ++i) add(node.inputs[i]);
  add(node.outputs[0]);
  return bytes;
}

double matmul_flops(const FragmentView& fragment, const tn_node& node) {
  const TensorView a = fragment.tensor(node.inputs[0]), c = fragment.tensor(node.outputs[0]);
  const bool turned = author::attribute_i64(node, "transpose_a").value_or(0) != 0;
  return 2 * static_cast<double>(c.elements()) * static_cast<double>(a.dims()[a.rank() - (turned ? 2 : 1)]);
}

double predicted_ns(const FragmentView& fragment, const std::vector<Group>& groups) {
  double ns = launch_ns;
  for (const Group& group : groups) {
    // A pass reads and writes what crosses its border; half of what its nodes name is a fair guess of it.
    double bytes = 0;
    for (uint32_t n = group.first; n < group.end; ++n) bytes += bytes_of(fragment, fragment.nodes()[n]);
    ns += bytes / bytes_per_ns / (group.end - group.first > 1 ? 2 : 1);
    if (group.role == Role::matmul)
      ns += matmul_flops(fragment, fragment.nodes()[group.first]) / flops_per_ns;
  }
  return ns;
}

// The first node that is not computed in its own type, in words; "" when all are.
std::string conversion(const FragmentView& fragment) {
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    const tn_node& node = fragment.nodes()[n];
    const Role role = role_of(node.op);
    if (node.input_count == 0 || role == Role::reshape || role == Role::transpose) continue;
    const uint32_t last = node.inputs[node.input_count - 1], dtype = fragment.tensor(last).dtype();
    if (dtype != TN_DTYPE_f16 && dtype != TN_DTYPE_bf16) continue;
    if (role == Role::matmul && matmul_dtype(dtype) == dtype) continue;
    if (node.op == TN_OP_cast || node.op == TN_OP_identity || node.op == TN_OP_broadcast_to) continue;
    return text(node_name(fragment, n), " of ", author::dtype_name(dtype),
                " is computed in f32 and rounded once");
  }
  return "";
}

// "" when every product has an engine.
std::string missing_engine(const FragmentView& fragment) {
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    const tn_node& node = fragment.nodes()[n];
    if (role_of(node.op) != Role::matmul || has_onednn()) continue;
    const uint32_t dtype = fragment.tensor(node.inputs[0]).dtype();
    if (dtype == TN_DTYPE_f64) continue;
    return text(node_name(fragment, n), " of ", author::dtype_name(dtype),
                ": this build of the CPU plugin has no oneDNN (TENON_CPU_ONEDNN=OFF); f64 runs without it");
  }
  return "";
}

Status build(Builder& builder, const Group& group, unsigned threads) {
  const tn_node& node = builder.fragment().nodes()[group.first];
  switch (group.role) {
    case Role::elementwise:
      return build_elementwise(builder, group);
    case Role::reduction:
      return build_reduction(builder, node);
    case Role::matmul:
      return build_matmul(builder, node, threads);
    case Role::reshape:
    case Role::transpose:
      return build_movement(builder, node);
    case Role::none:
      break;
  }
  return Status(TN_UNSUPPORTED,
                node_name(builder.fragment(), group.first) + ": not computed by the CPU plugin");
}

}  // namespace

Status judge(const tn_fragment& fragment, tn_support& out) {
  const FragmentView view(fragment);
  if (const Status checked = check_fragment(view); !checked.ok()) {
    if (checked.code() != TN_UNSUPPORTED) return Status(Error(checked.error()));
    return author::refuse(out, checked.message());
  }
  if (const std::string missing = missing_engine(view); !missing.empty()) return author::refuse(out, missing);
  const std::vector<Group> groups = groups_of(view);
  const double ns = predicted_ns(view, groups);
  out.alias_mask = honoured_aliases(view, groups);
  if (groups.size() > 1) {
    return author::accept_emulated(
        out,
        text(view.nodes().size(), " nodes run as ", groups.size(),
             " steps through memory: ", node_name(view, groups[1].first), " starts the second"),
        ns);
  }
  if (const std::string converted = conversion(view); !converted.empty()) {
    return author::accept_converted(out, converted, ns);
  }
  return author::accept(out, ns);
}

Result<std::unique_ptr<const Program>> make_program(const tn_fragment& fragment, uint64_t workspace_limit,
                                                    unsigned threads) {
  const FragmentView view(fragment);
  TN_TRY(check_fragment(view));
  if (const std::string missing = missing_engine(view); !missing.empty())
    return Status(TN_UNSUPPORTED, missing);
  const std::vector<Group> groups = groups_of(view);
  Builder builder(fragment);
  for (const Group& group : groups) TN_TRY(build(builder, group, threads));
  TN_TRY(builder.copy_the_rest());
  if (builder.workspace_bytes() > workspace_limit) {
    return Status(TN_UNSUPPORTED,
                  text("a run needs ", builder.workspace_bytes(), " bytes of workspace, and the limit is ",
                       workspace_limit, ": raise it or cut the fragment"));
  }
  return std::unique_ptr<const Program>(std::make_unique<Sequence>(builder, predicted_ns(view, groups)));
}

}  // namespace tenon::cpu
