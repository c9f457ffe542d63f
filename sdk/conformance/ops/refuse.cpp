// SPDX-License-Identifier: Apache-2.0
// refuse.cpp: both questions, and what each may answer.
#include "conformance/ops/refuse.hpp"

namespace tenon::conform {

int32_t ask_supports(const Device& device, const tn_fragment* fragment, tn_support* out, tn_error* e) {
  return device.api().kernel.supports(device.handle(), fragment, out, e);
}
int32_t ask_compile(const Device& device, const tn_fragment* fragment, tn_kernel** out, tn_error* e) {
  tn_compile_options options{};
  options.size = sizeof options;
  options.workspace_limit = TN_COMPILE_NO_LIMIT;
  return device.api().kernel.compile(device.handle(), fragment, &options, out, e);
}

void refuses_fragment(Context& t, const Device& device, const tn_fragment& fragment, const std::string& what,
                      bool unsupported_will_do) {
  tn_support answer{};
  answer.size = sizeof answer;
  const Status asked =
      t.call("kernel.supports", [&](tn_error* e) { return ask_supports(device, &fragment, &answer, e); });
  const bool no = asked.ok() && answer.verdict == TN_SUPPORT_NO && answer.reason[0] != '\0';
  t.check(asked.code() == TN_INVALID || (unsupported_will_do && (no || asked.code() == TN_UNSUPPORTED)), what,
          ": kernel.supports must refuse it, and said ",
          !asked.ok() ? std::string(asked.message())
                      : words("verdict ", answer.verdict, " with the reason '", answer.reason, "'"));
  tn_kernel* kernel = nullptr;
  const Status made =
      t.call("kernel.compile", [&](tn_error* e) { return ask_compile(device, &fragment, &kernel, e); });
  t.check(made.code() == TN_INVALID || (unsupported_will_do && made.code() == TN_UNSUPPORTED), what,
          ": kernel.compile must refuse it, and said ", made.ok() ? "TN_OK" : made.message());
  t.check(kernel == nullptr, what, ": a refused compile stored a kernel");
}

}  // namespace tenon::conform
