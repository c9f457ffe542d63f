// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: what may be asked about a fragment, and what must be refused.
#include "conformance/case.hpp"
#include "conformance/ops/refuse.hpp"
#include "conformance/ops/sample.hpp"

#include <functional>

namespace tenon::conform {

namespace {

// One copy of a sample's fragment that a case may spoil.
struct Spoiled {
  OneNode node;
  std::vector<tn_tensor> tensors;
  std::vector<tn_node> nodes;
  tn_fragment fragment;

  explicit Spoiled(const Trial& trial)
      : node(trial),
        tensors(node.fragment().tensors, node.fragment().tensors + node.fragment().tensor_count),
        nodes(node.fragment().nodes, node.fragment().nodes + node.fragment().node_count),
        fragment(node.fragment()) {
    fragment.tensors = tensors.data();
    fragment.nodes = nodes.data();
    fragment.identity[0] ^= 0xFF;  // whatever is spoiled, it is another fragment
  }
};

struct Spoiling {
  const char* what;
  void (*spoil)(Spoiled& s);
};

}  // namespace

CONFORM_CASE(1, "kernel: supports answers for every op, with a reason for every no") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  for (const Row& row : op_rows) {
    if (!is_single(row)) continue;
    for (const uint32_t dtype : subjects(row)) {
      Choices choices(t.random());
      const Trial trial = draw_trial(row, dtype, Form::strided, 100, choices);
      const OneNode node(trial);
      const auto first = supports(t, device, node.fragment()), again = supports(t, device, node.fragment());
      t.check(first.ok(), told(trial), ": ", first.message());
      if (!first.ok() || !again.ok()) continue;
      t.check(first->verdict == again->verdict, told(trial), ": two answers to one question differ");
    }
  }
  return {};
}

CONFORM_CASE(1, "kernel: a malformed fragment is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 10));
  static const int64_t negative[] = {-1};
  static const uint32_t outside[] = {77, 77};  // a sample may read its input twice
  static const Spoiling spoilings[] = {
      {"tensors are NULL", [](Spoiled& s) { s.fragment.tensors = nullptr; }},
      {"nodes are NULL", [](Spoiled& s) { s.fragment.nodes = nullptr; }},
      {"inputs are NULL", [](Spoiled& s) { s.fragment.inputs = nullptr; }},
      {"an input names tensor 77", [](Spoiled& s) { s.fragment.inputs = outside; }},
      {"a node reads tensor 77", [](Spoiled& s) { s.nodes[0].inputs = outside; }},
      {"a node writes tensor 77", [](Spoiled& s) { s.nodes[0].outputs = outside; }},
      {"a node has no input", [](Spoiled& s) { s.nodes[0].input_count = 0; }},
      {"a node has no output", [](Spoiled& s) { s.nodes[0].output_count = 0; }},
      {"a rank of 9", [](Spoiled& s) { s.tensors[0].rank = TN_MAX_RANK + 1; }},
      {"a negative dim", [](Spoiled& s) { s.tensors[0].dims = negative; }},
      {"a negative stride", [](Spoiled& s) { s.tensors[0].strides = negative; }},
      {"dims are NULL", [](Spoiled& s) { s.tensors[0].dims = nullptr; }},
      {"an alignment of 3", [](Spoiled& s) { s.tensors[0].alignment = 3; }}};
  for (const Spoiling& one : spoilings) {
    Spoiled spoiled(sample.trial());
    one.spoil(spoiled);
    refuses_fragment(t, device, spoiled.fragment, one.what, false);
  }
  return {};
}

CONFORM_CASE(1, "kernel: operands that do not fit each other are refused") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 10));
  static const int64_t longer[] = {11};
  static const Spoiling spoilings[] = {
      {"a result of 11 from 10 elements", [](Spoiled& s) { s.tensors[1].dims = longer; }},
      {"a result of rank 0 from 10 elements", [](Spoiled& s) { s.tensors[1].rank = 0; }},
      {"a result of a type that the op does not give",
       [](Spoiled& s) {
         s.tensors[1].dtype = s.tensors[1].dtype == TN_DTYPE_f64 ? TN_DTYPE_i8 : TN_DTYPE_f64;
       }},
      {"an output that no node writes", [](Spoiled& s) { s.fragment.node_count = 0; }}};
  for (const Spoiling& one : spoilings) {
    Spoiled spoiled(sample.trial());
    one.spoil(spoiled);
    refuses_fragment(t, device, spoiled.fragment, one.what, true);
  }
  return {};
}

CONFORM_CASE(1, "kernel: what nobody knows is refused with words") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 10));
  static const tn_link unknown{.next = nullptr,
                               .id = "tenon.conform.unknown/1",
                               .size = sizeof(tn_link),
                               .flags = TN_LINK_MUST_UNDERSTAND};
  static const Spoiling spoilings[] = {
      {"an op of number 60000", [](Spoiled& s) { s.nodes[0].op = 60000; }},
      {"a dtype of 99", [](Spoiled& s) { s.tensors[0].dtype = 99; }},
      {"a version of 1000", [](Spoiled& s) { s.nodes[0].version = 1000; }},
      {"a private layout of number 9999", [](Spoiled& s) { s.tensors[0].layout = 9999; }},
      {"a tensor's link that must be understood", [](Spoiled& s) { s.tensors[0].next = &unknown; }},
      {"a node's link that must be understood", [](Spoiled& s) { s.nodes[0].next = &unknown; }},
      {"a fragment's link that must be understood", [](Spoiled& s) { s.fragment.next = &unknown; }}};
  for (const Spoiling& one : spoilings) {
    Spoiled spoiled(sample.trial());
    one.spoil(spoiled);
    refuses_fragment(t, device, spoiled.fragment, one.what, true);
  }
  return {};
}

CONFORM_CASE(1, "kernel: NULL where something must be is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 10));
  const OneNode node(sample.trial());
  const tn_kernel_api& api = device.api().kernel;
  tn_support support{};
  support.size = sizeof support;
  tn_kernel_info info{};
  info.size = sizeof info;
  tn_kernel* made = nullptr;
  const auto no_device = [&](tn_error* e) { return api.supports(nullptr, &node.fragment(), &support, e); };
  t.refuses(TN_INVALID, "kernel.supports without a device", no_device);
  t.refuses(TN_INVALID, "kernel.supports without a fragment",
            [&](tn_error* e) { return ask_supports(device, nullptr, &support, e); });
  t.refuses(TN_INVALID, "kernel.supports without room for the answer",
            [&](tn_error* e) { return ask_supports(device, &node.fragment(), nullptr, e); });
  t.refuses(TN_INVALID, "kernel.compile without a fragment",
            [&](tn_error* e) { return ask_compile(device, nullptr, &made, e); });
  t.refuses(TN_INVALID, "kernel.compile without room for the kernel",
            [&](tn_error* e) { return ask_compile(device, &node.fragment(), nullptr, e); });
  t.refuses(TN_INVALID, "kernel.info without a kernel",
            [&](tn_error* e) { return api.info(nullptr, &info, e); });
  t.refuses(TN_INVALID, "kernel.launch without a kernel",
            [&](tn_error* e) { return api.launch(nullptr, nullptr, nullptr, 0, nullptr, e); });
  t.refuses(TN_INVALID, "kernel.destroy without a kernel",
            [&](tn_error* e) { return api.destroy(nullptr, e); });
  return {};
}

CONFORM_CASE(1, "kernel: a limit on the workspace is kept") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  for (const Row& row : op_rows) {
    if (!is_single(row)) continue;
    Choices choices(t.random());
    const std::vector<uint32_t> types = subjects(row);
    const Trial trial = draw_trial(row, types[t.random().below(types.size())], Form::strided, 3000, choices);
    const OneNode node(trial);
    if (TN_TRY(supports(t, device, node.fragment())).verdict == TN_SUPPORT_NO) continue;
    for (const uint64_t limit : {uint64_t{0}, uint64_t{1000}}) {
      const auto made = compile(t, device, node.fragment(), limit);
      if (!made.ok()) {
        t.check(made.code() == TN_UNSUPPORTED, told(trial), " within ", limit, " bytes: ", made.message());
        continue;
      }
      const tn_kernel_info info = TN_TRY(made->info());
      t.check(info.workspace_bytes <= limit, told(trial), " was to need ", limit,
              " bytes of workspace and needs ", info.workspace_bytes);
    }
  }
  return t.require(true, "");
}

CONFORM_CASE(1, "kernel: closing the device while a kernel lives is TN_BUSY") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 10));
  const Kernel kernel = TN_TRY(compile(t, device, OneNode(sample.trial()).fragment()));
  t.refuses(TN_BUSY, "device.close while a kernel lives",
            [&](tn_error* e) { return device.api().device.close(device.handle(), e); });
  t.check(kernel.info().ok(), "the kernel must stay good after a refused close");
  return {};
}

CONFORM_CASE(1, "kernel: constants are copied at compile") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 100));
  constexpr uint64_t seed = 7;
  Bytes constant = sample.input(seed);
  Spoiled made(sample.trial());
  made.tensors[0].flags = TN_TENSOR_CONSTANT;
  made.tensors[0].constant = constant.data();
  made.tensors[0].constant_bytes = constant.size();
  made.fragment.input_count = 0;
  set_identity(made.fragment);
  const tn_support said = TN_TRY(supports(t, device, made.fragment));
  TN_TRY(t.needs(said.verdict != TN_SUPPORT_NO, "kernel.constant", said.reason));
  const Kernel kernel = TN_TRY(compile(t, device, made.fragment));
  std::fill(constant.begin(), constant.end(), std::byte{0x11});
  const tn_kernel_info info = TN_TRY(kernel.info());
  const Memory output = TN_TRY(device.alloc(sample.output_bytes()))
  , workspace = TN_TRY(workspace_of(device, info));
  const Stream stream = TN_TRY(device.stream());
  const tn_span bindings[] = {output.span()}, span = workspace.span();
  TN_TRY(kernel.launch(stream, bindings, info.workspace_bytes != 0 ? &span : nullptr));
  sample.expect(t, seed, TN_TRY(download(stream, output.span())),
                "a constant that its owner changed after compile");
  return {};
}

CONFORM_CASE(1, "kernel: one that was saved is loaded and computes the same") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 100));
  const tn_kernel_api& api = device.api().kernel;
  TN_TRY(t.needs(api.save != nullptr && api.load != nullptr, "kernel.save", "the plugin saves no kernels"));
  const OneNode node(sample.trial());
  Bench bench = TN_TRY(Bench::make(t, device, sample));
  uint64_t bytes = 0;
  TN_TRY(t.call("kernel.save for its size",
                [&](tn_error* e) { return api.save(bench.kernel.handle(), nullptr, 0, &bytes, e); }));
  Bytes saved(bytes);
  TN_TRY(t.call("kernel.save", [&](tn_error* e) {
    return api.save(bench.kernel.handle(), saved.data(), bytes, &bytes, e);
  }));
  tn_kernel* loaded = nullptr;
  tn_fragment other = node.fragment();
  other.identity[5] ^= 1;
  t.refuses(TN_MISMATCH, "kernel.load for another identity", [&](tn_error* e) {
    return api.load(device.handle(), &other, saved.data(), saved.size(), &loaded, e);
  });
  TN_TRY(t.call("kernel.load", [&](tn_error* e) {
    return api.load(device.handle(), &node.fragment(), saved.data(), saved.size(), &loaded, e);
  }));
  bench.kernel = Kernel(t, device.api(), loaded);
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(upload(stream, bench.input.span(), sample.input(3)));
  TN_TRY(bench.launch(stream));
  sample.expect(t, 3, TN_TRY(download(stream, bench.output.span())), "a loaded kernel");
  return {};
}

CONFORM_CASE(1, "kernel: published patterns are made of known ops and earlier steps") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  const tn_kernel_api& api = device.api().kernel;
  TN_TRY(t.needs(api.patterns != nullptr, "kernel.patterns", "the plugin publishes no fusions"));
  tn_pattern_list list{};
  TN_TRY(t.call("kernel.patterns", [&](tn_error* e) { return api.patterns(device.handle(), &list, e); }));
  t.check(list.count == 0 || list.items != nullptr, "kernel.patterns counts ", list.count, " and gives NULL");
  for (uint64_t i = 0; i < list.count && list.items != nullptr; ++i) {
    const tn_pattern& pattern = list.items[i];
    const std::string name = pattern.name != nullptr ? pattern.name : "";
    t.check(!name.empty(), "pattern ", i, " has no name");
    t.check(pattern.step_count > 0, "pattern '", name, "' has no steps");
    for (uint32_t s = 0; s < pattern.step_count; ++s) {
      const tn_pattern_step& step = pattern.steps[s];
      for (uint32_t n = 0; n < step.op_count; ++n)
        t.check(find_row(step.ops[n]) != nullptr, "pattern '", name, "' step ", s, ": op ", step.ops[n],
                " is not in ops.def");
      for (uint32_t n = 0; n < step.operand_count; ++n)
        t.check(step.operands[n] < s || step.operands[n] >= TN_PATTERN_INPUT, "pattern '", name, "' step ", s,
                ": operand ", n, " is step ", step.operands[n], ", which is not before it");
    }
  }
  return t.require(true, "");
}

}  // namespace tenon::conform
