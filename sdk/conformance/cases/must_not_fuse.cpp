// SPDX-License-Identifier: Apache-2.0
// must_not_fuse.cpp: level 2, fragments of several nodes that no device can run, and pairs in place that none may honour.
//
// Invariant: such a fragment ends with a reason, never with a result; what may be taken or refused is right where it is
// taken.
#include "conformance/case.hpp"
#include "conformance/fragments/ask_group.hpp"
#include "conformance/fragments/chain.hpp"
#include "conformance/fragments/reckon.hpp"
#include "conformance/ops/buffer.hpp"
#include "conformance/ops/refuse.hpp"

#include <span>
#include <utility>

namespace tenon::conform {

namespace {

constexpr int64_t elements = 40;

// A chain of three nodes that the plugin runs, to be spoiled: %0 → %1 → %2 → %3.
Result<Group> chain_for(Context& t, const Device& device) { return find_chain(t, device, 3, {elements}); }

struct Refusal {
  const char* what;
  void (*spoil)(WholeGroup& whole);
  bool unsupported_will_do;
};

Status refuse_all(Context& t, std::span<const Refusal> refusals) {
  const Device& device = *TN_TRY(t.device());
  const Group chain = TN_TRY(chain_for(t, device));
  for (const Refusal& one : refusals) {
    WholeGroup whole(chain);
    one.spoil(whole);
    set_identity(whole.fragment());
    refuses_fragment(t, device, whole.fragment(), one.what, one.unsupported_will_do);
  }
  return {};
}

// Runs a fragment that may be refused; where it is taken, each of its outputs must hold the chain's value `of`.
Status refused_or_right(Context& t, const Group& chain, const tn_fragment& fragment, const std::string& what,
                        const std::vector<uint32_t>& of) {
  const Device& device = *TN_TRY(t.device());
  tn_support answer{};
  answer.size = sizeof answer;
  const Status asked =
      t.call("kernel.supports", [&](tn_error* e) { return ask_supports(device, &fragment, &answer, e); });
  if (!asked.ok() || answer.verdict == TN_SUPPORT_NO) {
    t.check(
        asked.ok() ? answer.reason[0] != '\0' : asked.code() == TN_INVALID || asked.code() == TN_UNSUPPORTED,
        what, ": kernel.supports must refuse it with words, or take it: ", asked.ok() ? "" : asked.message());
    return {};
  }
  const Kernel kernel = TN_TRY(compile(t, device, fragment));
  const tn_kernel_info info = TN_TRY(kernel.info());
  const Memory workspace = TN_TRY(workspace_of(device, info));
  const Stream stream = TN_TRY(device.stream());
  Reckoning reckoned(chain);
  reckoned.all();
  std::vector<Buffer> buffers;
  std::vector<tn_span> bindings;
  buffers.push_back(TN_TRY(buffer_of(device, stream, chain.operand(0))));
  TN_TRY(upload(stream, buffers[0].memory.span(),
                image_of(chain.operand(0), buffers[0].at, reckoned.value(0).tensor)));
  for (const uint32_t value : of) buffers.push_back(TN_TRY(buffer_of(device, stream, chain.operand(value))));
  for (const Buffer& buffer : buffers) bindings.push_back(buffer.memory.span());
  const tn_span span = workspace.span();
  TN_TRY(kernel.launch(stream, bindings, info.workspace_bytes != 0 ? &span : nullptr));
  TN_TRY(stream.finish());
  for (size_t i = 0; i < of.size(); ++i) {
    const Bytes found = TN_TRY(buffers[i + 1].memory.read(t, stream, what));
    const Fared fared =
        compare(reckoned.value(of[i]), reckoned.value(of[i]), tensor_of(buffers[i + 1], found));
    t.check(fared.story.empty(), what, ", output ", i, ": ", fared.story);
  }
  return {};
}

// The pairs of `fragment` that supports honours, or none where it refuses.
Result<uint64_t> honoured(Context& t, const tn_fragment& fragment) {
  const Device& device = *TN_TRY(t.device());
  tn_support answer{};
  answer.size = sizeof answer;
  const Status asked =
      t.call("kernel.supports", [&](tn_error* e) { return ask_supports(device, &fragment, &answer, e); });
  TN_TRY(
      t.require(asked.ok() || asked.code() == TN_INVALID || asked.code() == TN_UNSUPPORTED, asked.message()));
  return asked.ok() && answer.verdict != TN_SUPPORT_NO ? answer.alias_mask : 0;
}

}  // namespace

CONFORM_CASE(2, "refuse: nodes that stand in no order") {
  static const Refusal refusals[] = {
      {"the first node reads what the last one makes",
       [](WholeGroup& w) { w.raw_node(0).inputs = w.raw_node(2).outputs; }, true},
      {"two nodes read each other", [](WholeGroup& w) { w.raw_node(0).inputs = w.raw_node(1).outputs; },
       true},
      {"a node reads its own result", [](WholeGroup& w) { w.raw_node(1).inputs = w.raw_node(1).outputs; },
       true},
      {"nodes stand the other way round", [](WholeGroup& w) { std::swap(w.raw_node(0), w.raw_node(2)); },
       true}};
  return refuse_all(t, refusals);
}

CONFORM_CASE(2, "refuse: values that are made twice or never") {
  static const Refusal refusals[] = {
      {"two nodes make one value", [](WholeGroup& w) { w.raw_node(1).outputs = w.raw_node(0).outputs; },
       true},
      {"a node makes an input of the fragment",
       [](WholeGroup& w) { w.raw_node(1).outputs = w.raw_node(0).inputs; }, true},
      {"no node makes the output", [](WholeGroup& w) { --w.fragment().node_count; }, true},
      {"no node makes an inner value",
       [](WholeGroup& w) {
         std::swap(w.raw_node(0), w.raw_node(2));
         std::swap(w.raw_node(0), w.raw_node(1));
         w.raw_node(1).inputs = w.raw_node(0).inputs;
         --w.fragment().node_count;
       },
       true}};
  return refuse_all(t, refusals);
}

CONFORM_CASE(2, "refuse: inner values that do not fit their op") {
  static const int64_t longer[] = {elements + 1};
  static const Refusal refusals[] = {
      {"an inner value has an element more than its op gives",
       [](WholeGroup& w) { w.raw_tensor(1).dims = longer; }, true},
      {"an inner value is of rank 0", [](WholeGroup& w) { w.raw_tensor(2).rank = 0; }, true},
      {"an inner value is of a type that its op does not give",
       [](WholeGroup& w) {
         w.raw_tensor(1).dtype = w.raw_tensor(0).dtype == TN_DTYPE_f64 ? TN_DTYPE_i8 : TN_DTYPE_f64;
       },
       true},
      {"an inner value is of a reserved type", [](WholeGroup& w) { w.raw_tensor(1).dtype = 14; }, true},
      {"an inner value is of a type that nobody knows", [](WholeGroup& w) { w.raw_tensor(1).dtype = 99; },
       false},
      {"an inner value has a private layout that nobody knows",
       [](WholeGroup& w) { w.raw_tensor(1).layout = 9999; }, true}};
  return refuse_all(t, refusals);
}

CONFORM_CASE(2, "refuse: a node in the middle that cannot be computed") {
  static const uint32_t outside[] = {77};
  static const tn_link unknown{.next = nullptr,
                               .id = "tenon.conform.unknown/1",
                               .size = sizeof(tn_link),
                               .flags = TN_LINK_MUST_UNDERSTAND};
  static const Refusal refusals[] = {
      {"an op of number 60000", [](WholeGroup& w) { w.raw_node(1).op = 60000; }, true},
      {"a version of 1000", [](WholeGroup& w) { w.raw_node(1).version = 1000; }, true},
      {"a node reads tensor 77", [](WholeGroup& w) { w.raw_node(1).inputs = outside; }, false},
      {"a node without inputs", [](WholeGroup& w) { w.raw_node(1).input_count = 0; }, false},
      {"a link that must be understood", [](WholeGroup& w) { w.raw_node(1).next = &unknown; }, true}};
  return refuse_all(t, refusals);
}

CONFORM_CASE(2, "refuse: a collective where fragments have none") {
  const Device& device = *TN_TRY(t.device());
  if (device.has(TN_FEATURE_FRAGMENT_COLLECTIVES))
    return t.skip("its fragments have collectives: feature: FRAGMENT_COLLECTIVES … is about them");
  static const char reduce[] = "sum";
  static const tn_attribute attributes[] = {{.name = "comm",
                                             .kind = TN_ATTRIBUTE_I64,
                                             .reserved = 0,
                                             .count = 0,
                                             .i64 = 0,
                                             .f64 = 0,
                                             .data = nullptr},
                                            {.name = "reduce",
                                             .kind = TN_ATTRIBUTE_STRING,
                                             .reserved = 0,
                                             .count = 3,
                                             .i64 = 0,
                                             .f64 = 0,
                                             .data = reduce}};
  static const Refusal refusals[] = {{"an all_reduce between two nodes",
                                      [](WholeGroup& w) {
                                        w.raw_node(1).op = TN_OP_all_reduce;
                                        w.raw_node(1).attributes = attributes;
                                        w.raw_node(1).attribute_count = 2;
                                      },
                                      true}};
  return refuse_all(t, refusals);
}

CONFORM_CASE(2, "refuse: a pair in place outside of the lists") {
  static const tn_alias no_input[] = {{.input = 5, .output = 0}}, no_output[] = {{.input = 0, .output = 5}};
  static const Refusal refusals[] = {{"an alias of input 5",
                                      [](WholeGroup& w) {
                                        w.fragment().aliases = no_input;
                                        w.fragment().alias_count = 1;
                                      },
                                      false},
                                     {"an alias of output 5",
                                      [](WholeGroup& w) {
                                        w.fragment().aliases = no_output;
                                        w.fragment().alias_count = 1;
                                      },
                                      false}};
  return refuse_all(t, refusals);
}

CONFORM_CASE(2, "refuse: a pair in place whose ends differ is not honoured") {
  const Device& device = *TN_TRY(t.device());
  const Group found = TN_TRY(chain_for(t, device));
  static const tn_alias pair[] = {{.input = 0, .output = 0}};
  const auto ask_pair = [&](const Group& group, const char* what) -> Status {
    WholeGroup whole(group);
    whole.fragment().aliases = pair;
    whole.fragment().alias_count = 1;
    set_identity(whole.fragment());
    const uint64_t mask = TN_TRY(honoured(t, whole.fragment()));
    t.check((mask & 1) == 0, what, ": tn_support.alias_mask honours it");
    return {};
  };
  // The same place for values that lie otherwise: an element would be written before it is read, or beside its place.
  Group gaps = found;
  gaps.values[0].operand.strides = {2};
  TN_TRY(ask_pair(gaps, "an input with gaps and a dense output"));
  gaps = found;
  gaps.values[3].operand.strides = {3};
  TN_TRY(ask_pair(gaps, "a dense input and an output with gaps"));
  Group repeated = found;
  repeated.values[0].operand.strides = {0};
  return ask_pair(repeated, "an input that is one element repeated");
}

CONFORM_CASE(2, "refuse: an output listed twice, or it arrives twice") {
  const Device& device = *TN_TRY(t.device());
  const Group chain = TN_TRY(chain_for(t, device));
  WholeGroup whole(chain);
  const uint32_t last = whole.tensor(3), outputs[] = {last, last};
  whole.fragment().outputs = outputs;
  whole.fragment().output_count = 2;
  set_identity(whole.fragment());
  return refused_or_right(t, chain, whole.fragment(), "one value as two outputs", {3, 3});
}

CONFORM_CASE(2, "refuse: an input given out again, or it arrives") {
  const Device& device = *TN_TRY(t.device());
  const Group chain = TN_TRY(chain_for(t, device));
  WholeGroup whole(chain);
  const uint32_t outputs[] = {whole.tensor(3), whole.tensor(0)};
  whole.fragment().outputs = outputs;
  whole.fragment().output_count = 2;
  set_identity(whole.fragment());
  return refused_or_right(t, chain, whole.fragment(), "an input as an output", {3, 0});
}

CONFORM_CASE(2, "refuse: a tensor that nobody reads or makes, or it does no harm") {
  const Device& device = *TN_TRY(t.device());
  const Group chain = TN_TRY(chain_for(t, device));
  WholeGroup whole(chain);
  std::vector<tn_tensor> tensors(whole.fragment().tensors,
                                 whole.fragment().tensors + whole.fragment().tensor_count);
  tensors.push_back(tensors.back());
  whole.fragment().tensors = tensors.data();
  ++whole.fragment().tensor_count;
  set_identity(whole.fragment());
  return refused_or_right(t, chain, whole.fragment(), "a tensor that is nobody's", {3});
}

}  // namespace tenon::conform
