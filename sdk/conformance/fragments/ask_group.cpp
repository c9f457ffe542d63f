// SPDX-License-Identifier: Apache-2.0
// ask_group.cpp: one fragment put to the plugin.
#include "conformance/fragments/ask_group.hpp"

#include "conformance/fragments/reckon.hpp"
#include "conformance/ops/buffer.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace tenon::conform {

namespace {

// The fragment in progress.
class AskingGroup {
 public:
  AskingGroup(Context& t, const Device& device, const Stream& stream, const Group& group)
      : t_(t),
        device_(device),
        stream_(stream),
        group_(group),
        whole_(group),
        usual_(group),
        wide_(group, &t.settings().judging) {
    usual_.all();
    wide_.all();
  }

  Status run();
  GroupAnswer& answer() noexcept { return answer_; }

 private:
  struct Launched {
    std::vector<Bytes> outputs{};
    uint64_t told = 0, elements = 0;
  };
  Status refuse(const std::string& reason);
  Status steady(const tn_support& first, const char* when);
  Status place();
  Status launch(const Kernel& kernel, const tn_kernel_info& info);
  Result<Launched> judge();
  Status inputs_unchanged();
  Result<bool> node_by_node();
  Status run_node(size_t node, std::map<uint32_t, Buffer>& made);
  Result<bool> runs_alone(size_t node);
  Status hold(uint32_t value, const Buffer& buffer, const std::string& where, Launched* into);
  Status again(const Kernel& kernel, const tn_kernel_info& info, const std::vector<Bytes>& first);
  const tn_alias* honoured(uint32_t output) const {
    const auto pair = std::find_if(honoured_.begin(), honoured_.end(),
                                   [&](const tn_alias& one) { return one.output == output; });
    return pair != honoured_.end() ? &*pair : nullptr;
  }
  const Buffer& buffer_of_output(uint32_t output) const {
    const tn_alias* const pair = honoured(output);
    return pair != nullptr ? inputs_[pair->input] : outputs_[output];
  }

  Context& t_;
  const Device& device_;
  const Stream& stream_;
  const Group& group_;
  WholeGroup whole_;
  Reckoning usual_, wide_;
  GroupAnswer answer_{};
  std::vector<tn_alias> honoured_{};
  std::deque<Buffer> inputs_{}, outputs_{};
};

Status AskingGroup::refuse(const std::string& reason) {
  const auto made = compile(t_, device_, whole_.fragment());
  answer_.kind = GroupAnswer::Kind::refused;
  answer_.story = reason;
  if (made.ok())
    answer_.remark = words("kernel.supports says no (", reason, "), and kernel.compile compiles it");
  if (made.ok() || made.code() == TN_UNSUPPORTED) return {};
  return Status(TN_INTERNAL, words("kernel.supports says no (", reason,
                                   "); kernel.compile must say TN_UNSUPPORTED: ", made.message()));
}

// One question has one answer.
Status AskingGroup::steady(const tn_support& first, const char* when) {
  const tn_support now = TN_TRY(supports(t_, device_, whole_.fragment()));
  TN_TRY(t_.require(now.verdict == first.verdict && now.alias_mask == first.alias_mask,
                    "kernel.supports answers ", first.verdict, " with aliases ", hex(first.alias_mask),
                    ", and ", when, " ", now.verdict, " with aliases ", hex(now.alias_mask)));
  return {};
}

Status AskingGroup::place() {
  for (const uint32_t value : group_.inputs) {
    Buffer made = TN_TRY(buffer_of(device_, stream_, group_.operand(value)));
    made.before = image_of(*made.operand, made.at, usual_.value(value).tensor);
    TN_TRY(upload(stream_, made.memory.span(), made.before));
    inputs_.push_back(std::move(made));
  }
  for (const uint32_t value : group_.outputs) {
    Buffer made = TN_TRY(buffer_of(device_, stream_, group_.operand(value)));
    made.before = TN_TRY(made.memory.read(t_, stream_, "before the launch"));
    outputs_.push_back(std::move(made));
  }
  return {};
}

// The workspace is as long as `info` says and has borders: what a kernel keeps beside it is found.
Status AskingGroup::launch(const Kernel& kernel, const tn_kernel_info& info) {
  std::vector<tn_span> bindings;
  for (const Buffer& buffer : inputs_) bindings.push_back(buffer.memory.span());
  for (uint32_t i = 0; i < outputs_.size(); ++i) bindings.push_back(buffer_of_output(i).memory.span());
  if (info.workspace_bytes == 0) {
    TN_TRY(kernel.launch(stream_, bindings));
    return stream_.finish();
  }
  const uint64_t alignment = std::max<uint64_t>(info.workspace_alignment, 1);
  const bool guarded = alignment <= TN_MEMORY_ALIGNMENT;
  Guarded inside;
  Memory plain;
  if (guarded) {
    inside =
        TN_TRY(Guarded::make(device_, stream_, info.workspace_bytes, Guarded::skew_to(TN_MEMORY_ALIGNMENT)));
  } else {
    plain = TN_TRY(workspace_of(device_, info));
  }
  const tn_span span = guarded ? inside.span() : plain.span();
  TN_TRY(kernel.launch(stream_, bindings, &span));
  TN_TRY(stream_.finish());
  if (guarded) static_cast<void>(TN_TRY(inside.read(t_, stream_, "the workspace")));
  return {};
}

Status AskingGroup::hold(uint32_t value, const Buffer& buffer, const std::string& where, Launched* into) {
  const Bytes after = TN_TRY(buffer.memory.read(t_, stream_, where));
  TN_TRY(untouched(buffer, after, where));
  const Fared fared = compare(usual_.value(value), wide_.value(value), tensor_of(buffer, after));
  if (!fared.story.empty()) return Status(TN_INTERNAL, words(where, ": ", fared.story));
  into->told += fared.told;
  into->elements += buffer.at.size();
  answer_.eased += fared.eased;
  into->outputs.push_back(after);
  return {};
}

Result<AskingGroup::Launched> AskingGroup::judge() {
  Launched out;
  for (uint32_t i = 0; i < outputs_.size(); ++i) {
    const std::string where = words("in one kernel, %", group_.outputs[i]);
    TN_TRY(hold(group_.outputs[i], buffer_of_output(i), where, &out));
  }
  TN_TRY(inputs_unchanged());
  return out;
}

Status AskingGroup::inputs_unchanged() {
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    const bool taken = std::any_of(honoured_.begin(), honoured_.end(),
                                   [&](const tn_alias& pair) { return pair.input == i; });
    if (taken) continue;
    const Bytes after = TN_TRY(inputs_[i].memory.read(t_, stream_, words("input ", i)));
    TN_TRY(t_.require(after == inputs_[i].before, "input ", i, " was changed by the kernel"));
  }
  return {};
}

Result<bool> AskingGroup::runs_alone(size_t node) {
  const Trial trial = trial_of(group_, node);
  const OneNode alone(trial);
  return TN_TRY(supports(t_, device_, alone.fragment()))
  .verdict != TN_SUPPORT_NO;
}

// One node as a kernel of its own; its inputs are where the nodes before it left them.
Status AskingGroup::run_node(size_t node, std::map<uint32_t, Buffer>& made) {
  const Trial trial = trial_of(group_, node);
  const OneNode alone(trial);
  const Kernel kernel = TN_TRY(compile(t_, device_, alone.fragment()));
  const tn_kernel_info info = TN_TRY(kernel.info());
  const Memory workspace = TN_TRY(workspace_of(device_, info));
  std::vector<tn_span> bindings;
  for (const uint32_t value : group_.nodes[node].in) {
    if (value != TN_ABSENT) bindings.push_back(made.at(value).memory.span());
  }
  for (const uint32_t value : group_.nodes[node].out) {
    if (value != TN_ABSENT) bindings.push_back(made.at(value).memory.span());
  }
  const tn_span span = workspace.span();
  TN_TRY(kernel.launch(stream_, bindings, info.workspace_bytes != 0 ? &span : nullptr));
  return stream_.finish();
}

// Whether the plugin runs every node by itself; then it has, and the outputs were good.
Result<bool> AskingGroup::node_by_node() {
  for (size_t n = 0; n < group_.nodes.size(); ++n) {
    if (!TN_TRY(runs_alone(n))) return false;
  }
  std::deque<Operand> operands;
  std::map<uint32_t, Buffer> made;
  for (uint32_t value = 0; value < group_.values.size(); ++value) {
    const bool given = group_.is_input(value) || group_.values[value].constant;
    if (!group_.is_read(value) && !group_.is_output(value)) continue;
    Operand& operand = operands.emplace_back(group_.operand(value));
    if (!group_.is_input(value)) operand.strides.clear();
    if (!group_.is_input(value)) operand.skew = operand.alignment = 0;
    Buffer buffer = TN_TRY(buffer_of(device_, stream_, operand));
    if (given) {
      buffer.before = image_of(operand, buffer.at, usual_.value(value).tensor);
      TN_TRY(upload(stream_, buffer.memory.span(), buffer.before));
    } else {
      buffer.before = Bytes(buffer.memory.bytes());
    }
    made.emplace(value, std::move(buffer));
  }
  for (size_t n = 0; n < group_.nodes.size(); ++n) TN_TRY(run_node(n, made));
  Launched out;
  for (const uint32_t value : group_.outputs)
    TN_TRY(hold(value, made.at(value), words("node by node, %", value), &out));
  return true;
}

Status AskingGroup::again(const Kernel& kernel, const tn_kernel_info& info, const std::vector<Bytes>& first) {
  for (Buffer& buffer : outputs_) TN_TRY(upload(stream_, buffer.memory.span(), buffer.before));
  TN_TRY(launch(kernel, info));
  const Launched second = TN_TRY(judge());
  answer_.remark = TN_TRY(wavering(t_.settings().judging.determinism, first == second.outputs));
  return {};
}

Status AskingGroup::run() {
  const tn_support support = TN_TRY(supports(t_, device_, whole_.fragment()));
  TN_TRY(steady(support, "asked again"));
  if (support.verdict == TN_SUPPORT_NO) return refuse(support.reason);
  for (uint32_t i = 0; i < group_.aliases.size(); ++i) {
    if ((support.alias_mask >> i & 1) != 0) honoured_.push_back(group_.aliases[i]);
  }
  auto made = compile(t_, device_, whole_.fragment());
  if (!made.ok()) return Status(TN_INTERNAL, words("kernel.supports says yes: ", made.message()));
  const Kernel kernel = *std::move(made);
  TN_TRY(steady(support, "after it was compiled"));
  const tn_kernel_info info = TN_TRY(kernel.info());
  answer_.proof = {.verdict = support.verdict,
                   .workspace = info.workspace_bytes,
                   .inner = group_.inner_bytes(),
                   .engine = std::string(info.engine, strnlen(info.engine, sizeof info.engine))};
  TN_TRY(place());
  TN_TRY(launch(kernel, info));
  const Launched first = TN_TRY(judge());
  if (honoured_.empty()) TN_TRY(again(kernel, info, first.outputs));
  answer_.alone = TN_TRY(node_by_node());
  if (first.told == 0 && first.elements > 0) answer_.kind = GroupAnswer::Kind::untold;
  return {};
}

}  // namespace

GroupAnswer ask(Context& t, const Device& device, const Group& group) {
  GroupAnswer out;
  const std::vector<std::string> stories = t.aside(told(group), [&] {
    auto stream = device.stream();
    Status said;
    if (!stream.ok()) {
      said = Status(TN_INTERNAL, std::string(stream.message()));
    } else {
      AskingGroup asking(t, device, *stream, group);
      said = asking.run();
      out = asking.answer();
    }
    if (!said.ok()) t.fail(std::string(said.message()));
  });
  if (!stories.empty()) out = {.kind = GroupAnswer::Kind::failed, .story = stories.front()};
  return out;
}

}  // namespace tenon::conform
