// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: which fragments run here, and how: one addition of dense f32 tensors, to show the way.
//
// YOURS: grow `obstacle` (what you refuse, and why) together with what `compile` builds and `launch` runs.
// The reason is read by people: name the thing, its value and what would do.
// Invariant: what `supports` accepts, `compile` compiles.
#include "kernel.hpp"

#include "device.hpp"
#include "stream.hpp"

namespace plugin {

using namespace tenon::author;

namespace {

// Why a fragment does not run here; empty when it does.
std::string obstacle(const FragmentView& f) {
  if (f.nodes().size() != 1) return text("a fragment of ", f.nodes().size(), " nodes; only one is taken");
  const tn_node& node = f.nodes()[0];
  if (node.op != TN_OP_add) return text("op ", op_name(node.op), "; only add is taken");
  for (uint32_t i = 0; i < f.binding_count(); ++i) {
    const TensorView tensor = f.binding(i);
    if (tensor.dtype() != TN_DTYPE_f32) return text("dtype ", tensor.dtype_name(), "; only f32 is taken");
    if (!tensor.is_dense()) return "a strided tensor; only dense ones are taken";
    if (!same_dims(tensor, f.binding(0))) return "tensors of different shapes; broadcast is not taken";
  }
  // Two inputs and one output that are the node's own: no constants, nothing bound twice.
  const bool plain = f.inputs().size() == 2 && f.outputs().size() == 1 && node.inputs[0] == f.inputs()[0] &&
                     node.inputs[1] == f.inputs()[1] && node.outputs[0] == f.outputs()[0];
  return plain ? "" : "operands that are constant, shared or in another order";
}

}  // namespace

// Rules only, and fast: a few microseconds at most. The host remembers the answer.
tenon::Status Device::supports(const tn_fragment& fragment, tn_support& out) {
  const std::string reason = obstacle(FragmentView(fragment));
  if (!reason.empty()) return refuse(out, reason);
  out.alias_mask = UINT64_MAX;  // in place is fine: an element is read before it is written
  return accept(out);
}

tenon::Result<std::unique_ptr<Kernel>> Device::compile(const tn_fragment& fragment,
                                                       const tn_compile_options& /*options*/) {
  const FragmentView f(fragment);
  const std::string reason = obstacle(f);
  if (!reason.empty()) return tenon::Status(TN_UNSUPPORTED, reason);
  return std::make_unique<Kernel>(f.output(0).elements());
}

void Kernel::info(tn_kernel_info& out) const { set_text(out.engine, "loop"); }

// YOURS: enqueue on the stream's queue. The bindings array is borrowed for the call, its memory until
// completion.
tenon::Status Kernel::launch(Stream& /*stream*/, std::span<const tn_span> bindings,
                             const tn_span& /*workspace*/) {
  const auto a = elements_of<const float, Memory>(bindings[0]),
             b = elements_of<const float, Memory>(bindings[1]);
  const auto sum = elements_of<float, Memory>(bindings[2]);
  for (uint64_t i = 0; i < elements_; ++i) sum[i] = a[i] + b[i];
  return {};
}

}  // namespace plugin
