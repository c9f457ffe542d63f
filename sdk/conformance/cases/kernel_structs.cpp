// SPDX-License-Identifier: Apache-2.0
// kernel_structs.cpp: answers and options of kernels that are shorter or longer than the plugin knows them.
#include "conformance/case.hpp"
#include "conformance/cases/sizes.hpp"
#include "conformance/ops/refuse.hpp"
#include "conformance/ops/sample.hpp"

#include <cstddef>

namespace tenon::conform {

CONFORM_CASE(1, "kernel: an answer is never written past its size") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 10));
  const OneNode node(sample.trial());
  const Kernel kernel = TN_TRY(compile(t, device, node.fragment()));
  try_sizes<tn_support>(t, "tn_support", [&](tn_support* out) {
    return t.call("kernel.supports",
                  [&](tn_error* e) { return ask_supports(device, &node.fragment(), out, e); });
  });
  try_sizes<tn_kernel_info>(t, "tn_kernel_info", [&](tn_kernel_info* out) {
    return t.call("kernel.info",
                  [&](tn_error* e) { return device.api().kernel.info(kernel.handle(), out, e); });
  });
  return {};
}

CONFORM_CASE(1, "kernel: compile options that know less are not read past their size, more are taken") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 10));
  const OneNode node(sample.trial());
  const tn_compile_options asked{.workspace_limit = TN_COMPILE_NO_LIMIT};
  constexpr size_t limited = offsetof(tn_compile_options, comms),
                   least = offsetof(tn_compile_options, budget_ms);
  for (const size_t size : {least, limited - 8, limited, limited + 8, sizeof asked, sizeof asked + 128}) {
    const Sized options(asked, static_cast<uint32_t>(size));
    tn_kernel* made = nullptr;
    const std::string what = words("kernel.compile with options of ", size, " bytes");
    const Status said = t.call(what, [&](tn_error* e) {
      return device.api().kernel.compile(device.handle(), &node.fragment(), options.get(), &made, e);
    });
    const Kernel kernel(t, device.api(), made);
    // A limit that is not there reads as zero, which a kernel that needs a workspace does not keep.
    const bool starved = size < limited && said.code() == TN_UNSUPPORTED;
    t.check(said.ok() || starved, what, ": ", said.message());
  }
  return {};
}

}  // namespace tenon::conform
