// SPDX-License-Identifier: Apache-2.0
// ask.cpp: one trial from drawn numbers to a verdict.
#include "conformance/ops/ask.hpp"

#include "conformance/ops/buffer.hpp"
#include "conformance/ops/compare.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace tenon::conform {

namespace {

// One trial in progress.
class Asking {
 public:
  Asking(Context& t, const Device& device, const Stream& stream, const Trial& trial)
      : t_(t),
        device_(device),
        stream_(stream),
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
  Status repeats(bool same);
  Status refuse(const std::string& reason);
  Status place();
  Status launch(Kernel& kernel);
  Status judge(std::vector<Bytes>* outputs);
  bool in_place(uint32_t output) const {
    return std::any_of(honoured_.begin(), honoured_.end(),
                       [&](const tn_alias& pair) { return pair.output == output; });
  }

  Context& t_;
  const Device& device_;
  const Stream& stream_;
  const Trial& trial_;
  OneNode node_;
  Job job_;
  Slack slack_;
  Eased eased_{};
  std::string refused_{}, remark_{};
  std::vector<tn_alias> honoured_{};
  std::deque<Buffer> inputs_{}, outputs_{};  // those that are there and have memory of their own
};

// What supports refuses, compile refuses too, with words; one that works nevertheless is worth knowing.
Status Asking::refuse(const std::string& reason) {
  const auto made = compile(t_, device_, node_.fragment());
  refused_ = reason;
  if (made.ok()) remark_ = words("kernel.supports says no (", reason, "), and kernel.compile compiles it");
  if (made.ok() || made.code() == TN_UNSUPPORTED) return {};
  return Status(TN_INTERNAL, words("kernel.supports says no (", reason,
                                   "); kernel.compile must say TN_UNSUPPORTED: ", made.message()));
}

Status Asking::place() {
  for (size_t i = 0; i < trial_.inputs.size(); ++i) {
    if (trial_.inputs[i].absent || trial_.inputs[i].repeats_first) continue;
    Buffer made = TN_TRY(buffer_of(device_, stream_, trial_.inputs[i]));
    made.before = image_of(*made.operand, made.at, job_.in[i]);
    TN_TRY(upload(stream_, made.memory.span(), made.before));
    inputs_.push_back(std::move(made));
  }
  for (const Operand& operand : trial_.outputs) {
    if (operand.absent) continue;
    Buffer made = TN_TRY(buffer_of(device_, stream_, operand));
    made.before = TN_TRY(made.memory.read(t_, stream_, "before the launch"));
    outputs_.push_back(std::move(made));
  }
  return {};
}

Status Asking::launch(Kernel& kernel) {
  const tn_kernel_info info = TN_TRY(kernel.info());
  const Memory workspace = TN_TRY(workspace_of(device_, info));
  const tn_span span = workspace.span();
  std::vector<tn_span> bindings;
  auto next = inputs_.begin();
  for (const Operand& operand : trial_.inputs) {
    if (!operand.absent)
      bindings.push_back((operand.repeats_first ? inputs_.front() : *next++).memory.span());
  }
  for (uint32_t i = 0; i < outputs_.size(); ++i) {
    const auto pair = std::find_if(honoured_.begin(), honoured_.end(),
                                   [&](const tn_alias& one) { return one.output == i; });
    bindings.push_back(pair != honoured_.end() ? inputs_[pair->input].memory.span()
                                               : outputs_[i].memory.span());
  }
  TN_TRY(kernel.launch(stream_, bindings, info.workspace_bytes != 0 ? &span : nullptr));
  return stream_.finish();
}

Status Asking::judge(std::vector<Bytes>* runs) {
  uint32_t there = 0;
  for (size_t n = 0; n < trial_.outputs.size(); ++n) {
    if (trial_.outputs[n].absent) continue;
    const std::string where = words("output ", n);
    const auto pair = std::find_if(honoured_.begin(), honoured_.end(),
                                   [&](const tn_alias& one) { return one.output == there; });
    const Buffer& buffer = pair != honoured_.end() ? inputs_[pair->input] : outputs_[there];
    ++there;
    const Bytes after = TN_TRY(buffer.memory.read(t_, stream_, where));
    TN_TRY(untouched(buffer, after, where));
    const Tensor got = tensor_of(buffer, after);
    const auto wrong = compare(*trial_.row, trial_.subject, job_.out[n], got, slack_, &eased_);
    if (wrong) return Status(TN_INTERNAL, trial_.outputs.size() == 1 ? *wrong : where + ": " + *wrong);
    runs->push_back(after);
  }
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    const bool taken = std::any_of(honoured_.begin(), honoured_.end(),
                                   [&](const tn_alias& pair) { return pair.input == i; });
    if (taken) continue;
    const Bytes after = TN_TRY(inputs_[i].memory.read(t_, stream_, words("input ", i)));
    TN_TRY(t_.require(after == inputs_[i].before, "input ", i, " was changed by the kernel"));
  }
  return {};
}

Status Asking::run() {
  const tn_support support = TN_TRY(supports(t_, device_, node_.fragment()));
  if (support.verdict == TN_SUPPORT_NO) return refuse(support.reason);
  for (uint32_t i = 0; i < trial_.aliases.size(); ++i) {
    if ((support.alias_mask >> i & 1) != 0) honoured_.push_back(trial_.aliases[i]);
  }
  if (!trial_.aliases.empty() && honoured_.empty()) {
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
  if (!honoured_.empty()) return {};  // its inputs are gone
  for (Buffer& buffer : outputs_) TN_TRY(upload(stream_, buffer.memory.span(), buffer.before));
  TN_TRY(launch(kernel));
  TN_TRY(judge(&second));
  return repeats(first == second);
}

Status Asking::repeats(bool same) {
  remark_ = TN_TRY(wavering(t_.settings().judging.determinism, same));
  return {};
}

}  // namespace

Answer ask(Context& t, const Device& device, const Trial& trial) {
  Answer out;
  const std::vector<std::string> stories = t.aside(told(trial), [&] {
    auto stream = device.stream();
    Status said;
    if (!stream.ok()) {
      said = Status(TN_INTERNAL, std::string(stream.message()));
    } else {
      Asking asking(t, device, *stream, trial);
      said = asking.run();
      if (!asking.refused().empty()) out = {.kind = Answer::Kind::refused, .story = asking.refused()};
      out.remark = asking.remark();
      out.eased = asking.eased();
    }
    if (!said.ok()) t.fail(std::string(said.message()));
  });
  if (!stories.empty()) out = {.kind = Answer::Kind::failed, .story = stories.front()};
  return out;
}

}  // namespace tenon::conform
