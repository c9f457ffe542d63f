// SPDX-License-Identifier: Apache-2.0
// ask.cpp: one trial from drawn numbers to a verdict.
#include "conformance/ops/ask.hpp"

#include "conformance/guard.hpp"
#include "conformance/ops/compare.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace tenon::conform {

namespace {

constexpr std::byte gap{0xB7};  // between the elements of a strided input

// An operand in the device's memory.
struct Buffer {
  const Operand* operand;
  std::vector<uint64_t> at;  // places of the elements, in logical order
  Guarded memory{};
  Bytes before{};  // what it held when the kernel was launched
};

Bytes image_of(const Operand& operand, const std::vector<uint64_t>& at, const Tensor& values) {
  const uint64_t size = element_bytes(operand.dtype);
  Bytes out(extent(operand) * size, gap);
  for (uint64_t i = 0; i < at.size(); ++i) encode(operand.dtype, values.at[i], out.data() + at[i] * size);
  return out;
}

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
        slack_(slack_of(t, trial)) {}

  // OK and `refused` where the plugin says no; a failure is the trial's.
  Status run();
  const std::string& refused() const noexcept { return refused_; }
  // Something to know about an answer that is right, or "".
  const std::string& remark() const noexcept { return remark_; }
  const Eased& eased() const noexcept { return eased_; }

 private:
  static Slack slack_of(const Context& t, const Trial& trial) {
    const auto& declared = t.settings().judging.slack;
    const auto found = declared.find(words(trial.row->name, ".", author::dtype_name(trial.subject)));
    return found != declared.end() ? found->second : Slack{};
  }
  Status repeats(bool same);
  Status refuse(const std::string& reason);
  Status place();
  Status launch(Kernel& kernel);
  Status judge(std::vector<Bytes>* outputs);
  Status untouched(const Buffer& buffer, const Bytes& after, const std::string& where) const;
  Result<Buffer> buffer_of(const Operand& operand);
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

Result<Buffer> Asking::buffer_of(const Operand& operand) {
  const uint64_t size = element_bytes(operand.dtype);
  Buffer out{.operand = &operand, .at = places(operand.dims, strides_of(operand))};
  const uint64_t skew = operand.alignment != 0 ? Guarded::skew_to(operand.alignment) : operand.skew * size;
  out.memory = TN_TRY(Guarded::make(device_, stream_, extent(operand) * size, skew));
  return out;
}

Status Asking::place() {
  for (size_t i = 0; i < trial_.inputs.size(); ++i) {
    if (trial_.inputs[i].absent || trial_.inputs[i].repeats_first) continue;
    Buffer made = TN_TRY(buffer_of(trial_.inputs[i]));
    made.before = image_of(*made.operand, made.at, job_.in[i]);
    TN_TRY(upload(stream_, made.memory.span(), made.before));
    inputs_.push_back(std::move(made));
  }
  for (const Operand& operand : trial_.outputs) {
    if (operand.absent) continue;
    Buffer made = TN_TRY(buffer_of(operand));
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

// Every byte that belongs to no element is what it was.
Status Asking::untouched(const Buffer& buffer, const Bytes& after, const std::string& where) const {
  const uint64_t size = element_bytes(buffer.operand->dtype);
  std::vector<bool> written(after.size());
  for (const uint64_t at : buffer.at)
    std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(at * size), size, true);
  for (uint64_t i = 0; i < after.size(); ++i) {
    if (written[i] || after[i] == buffer.before[i]) continue;
    return Status(TN_INTERNAL, words(where, ": byte ", i, " lies between its elements and was written"));
  }
  return {};
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
    Tensor got{.dtype = trial_.outputs[n].dtype, .dims = trial_.outputs[n].dims};
    for (const uint64_t at : buffer.at)
      got.at.push_back(decode(got.dtype, after.data() + at * element_bytes(got.dtype)));
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
  const Determinism declared = t_.settings().judging.determinism;
  if (same || declared == Determinism::varies) return {};
  const std::string story = "two runs on the same numbers differ in their bits";
  if (declared == Determinism::bitwise)
    return Status(TN_INTERNAL, story + ", and the vendor declares determinism = \"bitwise\"");
  remark_ = story + ": where that is meant, declare determinism = \"varies\" in capabilities.toml";
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
