// SPDX-License-Identifier: Apache-2.0
// ask.cpp: one trial from drawn numbers to a verdict.
#include "conformance/ops/ask.hpp"

#include "conformance/ops/bound.hpp"
#include "conformance/ops/compare.hpp"
#include "conformance/ops/workspace.hpp"

namespace tenon::conform {

namespace {

// One trial in progress.
class Asking {
 public:
  Asking(Context& t, const Device& device, const Stream& stream, const Trial& trial)
      : t_(t),
        device_(device),
        stream_(stream),
        bound_(t, device, stream),
        trial_(trial),
        node_(trial),
        job_(solve(trial)),
        slack_(slack_of(t.settings().judging, *trial.row, trial.subject)) {}

  // OK and `refused` where the plugin says no; a failure is the trial's.
  Status run();
  const std::string& refused() const noexcept { return refused_; }
  // Something to know about an answer that is right, or "".
  const std::string& remark() const noexcept { return remark_; }
  const Eased& eased() const noexcept { return eased_; }

 private:
  Status refuse(const std::string& reason);
  Status place();
  Status launch(Kernel& kernel);
  Status judge(std::vector<Bytes>* outputs);

  Context& t_;
  const Device& device_;
  const Stream& stream_;
  Bound bound_;  // those that are there and have memory of their own
  const Trial& trial_;
  OneNode node_;
  Job job_;
  Slack slack_;
  Eased eased_{};
  std::string refused_{}, remark_{};
};

Status Asking::refuse(const std::string& reason) {
  refused_ = reason;
  remark_ = TN_TRY(refused_by_compile(t_, device_, node_.fragment(), reason));
  return {};
}

Status Asking::place() {
  for (size_t i = 0; i < trial_.inputs.size(); ++i) {
    if (trial_.inputs[i].absent || trial_.inputs[i].repeats_first) continue;
    TN_TRY(bound_.add_input(trial_.inputs[i], job_.in[i]));
  }
  for (const Operand& operand : trial_.outputs) {
    if (!operand.absent) TN_TRY(bound_.add_output(operand));
  }
  return {};
}

Status Asking::launch(Kernel& kernel) {
  const tn_kernel_info info = TN_TRY(kernel.info());
  const Workspace workspace = TN_TRY(Workspace::make(device_, stream_, info));
  std::vector<tn_span> bindings;
  auto next = bound_.inputs().begin();
  for (const Operand& operand : trial_.inputs) {
    if (!operand.absent)
      bindings.push_back((operand.repeats_first ? bound_.inputs().front() : *next++).memory.span());
  }
  for (uint32_t i = 0; i < bound_.output_count(); ++i) bindings.push_back(bound_.output(i).memory.span());
  TN_TRY(kernel.launch(stream_, bindings, workspace.span()));
  TN_TRY(stream_.finish());
  return workspace.check(t_, stream_);
}

Status Asking::judge(std::vector<Bytes>* runs) {
  uint32_t there = 0;
  for (size_t n = 0; n < trial_.outputs.size(); ++n) {
    if (trial_.outputs[n].absent) continue;
    const std::string where = words("output ", n);
    const Buffer& buffer = bound_.output(there++);
    const Bytes after = TN_TRY(buffer.memory.read(t_, stream_, where));
    TN_TRY(untouched(buffer, after, where));
    const Tensor got = tensor_of(buffer, after);
    const auto wrong = compare(*trial_.row, trial_.subject, job_.out[n], got, slack_, &eased_);
    if (wrong) return Status(TN_INTERNAL, trial_.outputs.size() == 1 ? *wrong : where + ": " + *wrong);
    runs->push_back(after);
  }
  return bound_.inputs_unchanged();
}

Status Asking::run() {
  const tn_support support = TN_TRY(supports(t_, device_, node_.fragment()));
  if (support.verdict == TN_SUPPORT_NO) return refuse(support.reason);
  bound_.honour(trial_.aliases, support);
  if (!trial_.aliases.empty() && !bound_.honours_any()) {
    refused_ = "tn_support.alias_mask honours no alias";
    return {};
  }
  auto made = compile(t_, device_, node_.fragment());
  if (!made.ok()) return Status(TN_INTERNAL, words("kernel.supports says yes: ", made.message()));
  Kernel kernel = *std::move(made);
  TN_TRY(place());
  std::vector<Bytes> first, second;
  TN_TRY(launch(kernel));
  TN_TRY(judge(&first));
  if (bound_.honours_any()) return {};  // its inputs are gone
  TN_TRY(bound_.reset_outputs());
  TN_TRY(launch(kernel));
  TN_TRY(judge(&second));
  remark_ = TN_TRY(wavering(t_.settings().judging.determinism, first == second));
  return {};
}

}  // namespace

Answer ask(Context& t, const Device& device, const Trial& trial) {
  Answer out;
  const auto failure = failure_apart(t, device, told(trial), [&](const Stream& stream) {
    Asking asking(t, device, stream, trial);
    Status said = asking.run();
    if (!asking.refused().empty()) out = {.kind = Answer::Kind::refused, .story = asking.refused()};
    out.remark = asking.remark();
    out.eased = asking.eased();
    return said;
  });
  if (failure) out = {.kind = Answer::Kind::failed, .story = *failure};
  return out;
}

}  // namespace tenon::conform
