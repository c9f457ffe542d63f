// SPDX-License-Identifier: Apache-2.0
// ask_group.cpp: one fragment put to the plugin.
#include "conformance/fragments/ask_group.hpp"

#include "conformance/fragments/reckon.hpp"
#include "conformance/ops/bound.hpp"
#include "conformance/ops/workspace.hpp"

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
        bound_(t, device, stream),
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
  Result<bool> node_by_node();
  Status run_node(size_t node, std::map<uint32_t, Buffer>& made);
  Result<bool> runs_alone(size_t node);
  Status hold(uint32_t value, const Buffer& buffer, const std::string& where, Launched* into);
  Status again(const Kernel& kernel, const tn_kernel_info& info, const std::vector<Bytes>& first);

  Context& t_;
  const Device& device_;
  const Stream& stream_;
  Bound bound_;
  const Group& group_;
  WholeGroup whole_;
  Reckoning usual_, wide_;
  GroupAnswer answer_{};
};

Status AskingGroup::refuse(const std::string& reason) {
  answer_.kind = GroupAnswer::Kind::refused;
  answer_.story = reason;
  answer_.remark = TN_TRY(refused_by_compile(t_, device_, whole_.fragment(), reason));
  return {};
}

// One question has one answer.
Status AskingGroup::steady(const tn_support& first, const char* when) {
  const tn_support now = TN_TRY(supports(t_, device_, whole_.fragment()));
  const auto pairs = [](const tn_support& s) { return words(hex(s.alias_mask), " + ", s.aliases_beyond); };
  return t_.require(now.verdict == first.verdict && pairs(now) == pairs(first), "kernel.supports answers ",
                    first.verdict, " with aliases ", pairs(first), ", and ", when, " ", now.verdict,
                    " with aliases ", pairs(now));
}

Status AskingGroup::place() {
  for (const uint32_t value : group_.inputs)
    TN_TRY(bound_.add_input(group_.operand(value), usual_.value(value).tensor));
  for (const uint32_t value : group_.outputs) TN_TRY(bound_.add_output(group_.operand(value)));
  return {};
}

Status AskingGroup::launch(const Kernel& kernel, const tn_kernel_info& info) {
  std::vector<tn_span> bindings;
  for (const Buffer& buffer : bound_.inputs()) bindings.push_back(buffer.memory.span());
  for (uint32_t i = 0; i < bound_.output_count(); ++i) bindings.push_back(bound_.output(i).memory.span());
  const Workspace workspace = TN_TRY(Workspace::make(device_, stream_, info));
  TN_TRY(kernel.launch(stream_, bindings, workspace.span()));
  TN_TRY(stream_.finish());
  return workspace.check(t_, stream_);
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
  for (uint32_t i = 0; i < bound_.output_count(); ++i) {
    const std::string where = words("in one kernel, %", group_.outputs[i]);
    TN_TRY(hold(group_.outputs[i], bound_.output(i), where, &out));
  }
  TN_TRY(bound_.inputs_unchanged());
  return out;
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
  const Workspace workspace = TN_TRY(Workspace::make(device_, stream_, info));
  std::vector<tn_span> bindings;
  for (const uint32_t value : group_.nodes[node].in) {
    if (value != TN_ABSENT) bindings.push_back(made.at(value).memory.span());
  }
  for (const uint32_t value : group_.nodes[node].out) {
    if (value != TN_ABSENT) bindings.push_back(made.at(value).memory.span());
  }
  TN_TRY(kernel.launch(stream_, bindings, workspace.span()));
  TN_TRY(stream_.finish());
  return workspace.check(t_, stream_);
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
    if (given && !group_.is_read(value) && !group_.is_output(value)) continue;
    const Operand& bound = group_.operand(value);
    const Operand& operand = operands.emplace_back(group_.is_input(value) ? bound : dense(bound));
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
  TN_TRY(bound_.reset_outputs());
  TN_TRY(launch(kernel, info));
  const Launched second = TN_TRY(judge());
  answer_.remark = TN_TRY(wavering(t_.settings().judging.determinism, first == second.outputs));
  return {};
}

Status AskingGroup::run() {
  const tn_support support = TN_TRY(supports(t_, device_, whole_.fragment()));
  TN_TRY(steady(support, "asked again"));
  if (support.verdict == TN_SUPPORT_NO) return refuse(support.reason);
  bound_.honour(group_.aliases, support);
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
  if (!bound_.honours_any()) TN_TRY(again(kernel, info, first.outputs));
  answer_.alone = TN_TRY(node_by_node());
  if (first.told == 0 && first.elements > 0) answer_.kind = GroupAnswer::Kind::untold;
  return {};
}

}  // namespace

GroupAnswer ask(Context& t, const Device& device, const Group& group) {
  GroupAnswer out;
  const auto failure = failure_apart(t, device, told(group), [&](const Stream& stream) {
    AskingGroup asking(t, device, stream, group);
    Status said = asking.run();
    out = asking.answer();
    return said;
  });
  if (failure) out = {.kind = GroupAnswer::Kind::failed, .story = *failure};
  return out;
}

}  // namespace tenon::conform
