// SPDX-License-Identifier: Apache-2.0
// kernel_test.cpp: fragments, bindings and workspaces on their way to an author's kernel.
// Invariant: a malformed fragment is refused by name, and a launch reaches the author only when it fits.
#include "scripted.hpp"

using namespace scripted;

namespace {

int32_t launch(Bench& b, tn_kernel* kernel, const std::vector<tn_span>& bindings,
               const tn_span* workspace = nullptr) {
  return b.plugin->kernel->launch(kernel, b.stream, bindings.data(), static_cast<uint32_t>(bindings.size()),
                                  workspace, &b.error);
}

// A kernel for `fragment`, destroyed at the end.
struct Compiled {
  Bench& bench;
  tn_kernel* kernel = nullptr;
  Compiled(Bench& b, const tn_fragment& fragment) : bench(b) {
    b.good(b.plugin->kernel->compile(b.device, &fragment, nullptr, &kernel, &b.error));
  }
  ~Compiled() { bench.good(bench.plugin->kernel->destroy(kernel, &bench.error)); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
};

// Spoils a copy of the add fragment and expects the refusal to say `words`.
template <class Spoil>
void malformed(const char* words, Spoil&& spoil) {
  Bench b;
  tn_fragment f = b.add.fragment();
  std::vector<tn_tensor> tensors(f.tensors, f.tensors + f.tensor_count);
  tn_node node = f.nodes[0];
  f.tensors = tensors.data();
  f.nodes = &node;
  spoil(f, tensors, node);
  auto answer = tenon::author::outgoing<tn_support>();
  tn_kernel* kernel = nullptr;
  CHECK(b.plugin->kernel->supports(b.device, &f, &answer, &b.error) == TN_INVALID);
  CHECK_MESSAGE(b.said(words), b.error.message);
  CHECK(b.plugin->kernel->compile(b.device, &f, nullptr, &kernel, &b.error) == TN_INVALID);
  CHECK(b.plugin->kernel->load(b.device, &f, "x", 1, &kernel, &b.error) == TN_INVALID);
  CHECK(kernel == nullptr);
  CHECK(script.calls.empty());
}

}  // namespace

TEST_CASE("fragment: what is malformed is refused by name, before the author sees it") {
  const int64_t negative[] = {-1}, huge[] = {INT64_MAX, INT64_MAX};
  const uint32_t ninth[] = {0, 9}, lonely[] = {0, TN_ABSENT};
  const tn_alias alias{2, 0};
  const tn_attribute unnamed{nullptr, TN_ATTRIBUTE_I64, 0, 0, 0, 0, nullptr};
  const tn_attribute empty{"axes", TN_ATTRIBUTE_I64S, 0, 2, 0, 0, nullptr};
  malformed("tensors is NULL, but its count is 3",
            [](tn_fragment& f, auto&, tn_node&) { f.tensors = nullptr; });
  malformed("nodes is NULL", [](tn_fragment& f, auto&, tn_node&) { f.nodes = nullptr; });
  malformed("inputs is NULL", [](tn_fragment& f, auto&, tn_node&) { f.inputs = nullptr; });
  malformed("inputs names tensor 9 of 3", [&](tn_fragment& f, auto&, tn_node&) { f.inputs = ninth; });
  malformed("outputs names tensor 0 of 0", [](tn_fragment& f, auto&, tn_node&) {
    static const uint32_t zero[] = {0};
    f.tensor_count = f.input_count = 0;
    f.outputs = zero;
  });
  malformed("aliases pair input 2 with output 0",
            [&](tn_fragment& f, auto&, tn_node&) { f.aliases = &alias, f.alias_count = 1; });
  malformed("tensor 1: dtype 99", [](tn_fragment&, auto& t, tn_node&) { t[1].dtype = 99; });
  malformed("tensor 1: rank 9", [](tn_fragment&, auto& t, tn_node&) { t[1].rank = 9; });
  malformed("tensor 1: dims is NULL", [](tn_fragment&, auto& t, tn_node&) { t[1].dims = nullptr; });
  malformed("tensor 1: dim 0 is -1", [&](tn_fragment&, auto& t, tn_node&) { t[1].dims = negative; });
  malformed("tensor 1: stride 0 is -1", [&](tn_fragment&, auto& t, tn_node&) { t[1].strides = negative; });
  malformed("tensor 1: alignment 48", [](tn_fragment&, auto& t, tn_node&) { t[1].alignment = 48; });
  malformed("tensor 1: has over 2^64", [&](tn_fragment&, auto& t, tn_node&) {
    t[1].dims = huge, t[1].rank = 2, t[1].dtype = TN_DTYPE_u8;
  });
  malformed("tensor 1: constant is NULL", [](tn_fragment&, auto& t, tn_node&) {
    t[1].flags = TN_TENSOR_CONSTANT, t[1].constant_bytes = 4;
  });
  malformed("node 0 (add): inputs names tensor 9 of 3",
            [&](tn_fragment&, auto&, tn_node& n) { n.inputs = ninth; });
  malformed("node 0 (add): outputs is NULL", [](tn_fragment&, auto&, tn_node& n) { n.outputs = nullptr; });
  malformed("node 0 (add): inputs are 1, from 2 on are legal",
            [](tn_fragment&, auto&, tn_node& n) { n.input_count = 1; });
  malformed("node 0 (add): inputs 1 is not optional",
            [&](tn_fragment&, auto&, tn_node& n) { n.inputs = lonely; });
  malformed("node 0 (add): outputs are 0, the op has 1",
            [](tn_fragment&, auto&, tn_node& n) { n.output_count = 0; });
  malformed("attributes : number 0 has no name",
            [&](tn_fragment&, auto&, tn_node& n) { n.attributes = &unnamed, n.attribute_count = 1; });
  malformed("node 0 (add): axes is NULL, but its count is 2",
            [&](tn_fragment&, auto&, tn_node& n) { n.attributes = &empty, n.attribute_count = 1; });
}

TEST_CASE("fragment: an op or a version that this SDK does not know may have any operands") {
  Bench b;
  tn_fragment f = b.add.fragment();
  tn_node node = f.nodes[0];
  node.input_count = 1;
  f.nodes = &node;
  auto answer = tenon::author::outgoing<tn_support>();
  node.version = 2;
  CHECK(b.plugin->kernel->supports(b.device, &f, &answer, &b.error) == TN_OK);
  node.op = 9999;
  node.version = 1;
  CHECK(b.plugin->kernel->supports(b.device, &f, &answer, &b.error) == TN_OK);
}

TEST_CASE("fragment: an absent operand is legal inside a node") {
  Bench b;
  tenon::author::FragmentBuilder f("attention without a mask");
  const uint32_t q = f.input(TN_DTYPE_f32, {1, 1, 4, 4}), y = f.output(TN_DTYPE_f32, {1, 1, 4, 4});
  f.node(TN_OP_attention, {q, q, q, TN_ABSENT}, {y, TN_ABSENT});
  const Compiled made(b, f.fragment());
  CHECK(script.called("Device::compile"));
}

TEST_CASE("supports: a no without a reason gets one, a yes needs none") {
  Bench b;
  auto answer = tenon::author::outgoing<tn_support>();
  b.good(b.plugin->kernel->supports(b.device, &b.add.fragment(), &answer, &b.error));
  CHECK(answer.verdict == TN_SUPPORT_NATIVE);
  CHECK(answer.reason[0] == '\0');
  tenon::author::refuse(answer, "dtype f64 is not computed here").failure().ok();
  CHECK(answer.verdict == TN_SUPPORT_NO);
  CHECK(std::string(answer.reason) == "dtype f64 is not computed here");
}

TEST_CASE("launch: the number of bindings is the fragment's") {
  Bench b;
  CHECK(launch(b, b.kernel, {b.span(0, 256), b.span(256, 256)}) == TN_INVALID);
  CHECK(b.said("launch has 2 bindings; the fragment has 3 inputs and outputs"));
  CHECK(!script.called("Kernel::launch"));
  CHECK(launch(b, b.kernel, {b.span(0, 256), b.span(256, 256), b.span(512, 256)}) == TN_OK);
}

TEST_CASE("launch: each binding is large enough, aligned and inside its memory") {
  Bench b;
  const tn_span good = b.span(0, 256);
  CHECK(launch(b, b.kernel, {good, b.span(256, 255), good}) == TN_INVALID);
  CHECK(b.said("binding 1 has 255 bytes and needs 256"));
  CHECK(launch(b, b.kernel, {good, good, b.span(258, 256)}) == TN_INVALID);
  CHECK(b.said("binding 2 starts at 258, which is no multiple of its alignment of 4"));
  CHECK(launch(b, b.kernel, {b.span(4000, 256), good, good}) == TN_INVALID);
  CHECK(b.said("binding 0: offset 4000 + 256 bytes reaches outside a memory of 4096 bytes"));
  int here = 0;
  CHECK(launch(b, b.kernel,
               {{nullptr, reinterpret_cast<uintptr_t>(&here), 256, TN_SPACE_HOST_ADDRESS, 0}, good, good}) ==
        TN_INVALID);
  CHECK(!script.called("Kernel::launch"));
  CHECK(launch(b, b.kernel, {{nullptr, 0x1000, 256, TN_SPACE_DEVICE_ADDRESS, 0}, good, b.span(256, 999)}) ==
        TN_OK);
}

TEST_CASE("launch: a strided binding needs its extent, a broadcast one no more than it has") {
  Bench b;
  tenon::author::FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {4, 8}, {16, 1}), row = f.input(TN_DTYPE_f32, {4, 8}, {0, 1});
  const uint32_t y = f.output(TN_DTYPE_u8, {4, 8});
  f.node(TN_OP_less, {x, row}, {y});
  const Compiled made(b, f.fragment());
  CHECK(launch(b, made.kernel, {b.span(0, (3 * 16 + 8) * 4), b.span(1024, 32), b.span(2048, 32)}) == TN_OK);
  CHECK(launch(b, made.kernel, {b.span(0, (3 * 16 + 8) * 4 - 1), b.span(1024, 32), b.span(2048, 32)}) ==
        TN_INVALID);
  CHECK(launch(b, made.kernel, {b.span(0, (3 * 16 + 8) * 4), b.span(1024, 31), b.span(2048, 32)}) ==
        TN_INVALID);
}

TEST_CASE("launch: a private layout is sized by the device, a stated alignment is demanded") {
  Bench b;
  tn_fragment fragment = b.add.fragment();
  std::vector<tn_tensor> tensors(fragment.tensors, fragment.tensors + fragment.tensor_count);
  tensors[0].layout = 1;
  tensors[2].alignment = 128;
  fragment.tensors = tensors.data();
  const Compiled made(b, fragment);
  CHECK(launch(b, made.kernel, {b.span(0, 256), b.span(512, 256), b.span(1024, 256)}) == TN_INVALID);
  CHECK(b.said("binding 0 has 256 bytes and needs 512"));
  CHECK(launch(b, made.kernel, {b.span(0, 512), b.span(512, 256), b.span(1024 + 64, 256)}) == TN_INVALID);
  CHECK(b.said("alignment of 128"));
  CHECK(launch(b, made.kernel, {b.span(0, 512), b.span(512, 256), b.span(1024, 256)}) == TN_OK);
}

TEST_CASE("launch: zero-element tensors may be bound to nothing, rank 0 is one element") {
  Bench b;
  tenon::author::FragmentBuilder f;
  const uint32_t none = f.input(TN_DTYPE_f32, {0, 8}), scalar = f.input(TN_DTYPE_f32, {}),
                 out = f.output(TN_DTYPE_f32, {0, 8});
  f.node(TN_OP_mul, {none, scalar}, {out});
  const Compiled made(b, f.fragment());
  CHECK(launch(b, made.kernel, {tn_span{}, b.span(4, 4), b.span(4096, 0)}) == TN_OK);
  CHECK(launch(b, made.kernel, {tn_span{}, b.span(4, 3), tn_span{}}) == TN_INVALID);
}

TEST_CASE("launch: the workspace that info asks for is demanded") {
  Bench b;
  script.workspace_bytes = 512;
  const Compiled made(b, b.add.fragment());
  const std::vector<tn_span> bindings{b.span(0, 256), b.span(256, 256), b.span(512, 256)};
  const tn_span small = b.span(1024, 511), crooked = b.span(1025, 600), good = b.span(1024, 512);
  CHECK(launch(b, made.kernel, bindings) == TN_INVALID);
  CHECK(b.said("workspace 0 has 0 bytes and needs 512"));
  CHECK(launch(b, made.kernel, bindings, &small) == TN_INVALID);
  CHECK(launch(b, made.kernel, bindings, &crooked) == TN_INVALID);
  CHECK(launch(b, made.kernel, bindings, &good) == TN_OK);
  CHECK(launch(b, b.kernel, bindings, &good) == TN_OK);  // one that asks for none may be given some
}

TEST_CASE("kernel: a workspace alignment that is no power of two is caught at compile") {
  Bench b;
  tn_kernel* kernel = nullptr;
  script.workspace_alignment = 48;
  CHECK(b.plugin->kernel->compile(b.device, &b.add.fragment(), nullptr, &kernel, &b.error) == TN_INTERNAL);
  CHECK(b.said("workspace alignment 48"));
  CHECK(kernel == nullptr);
}

TEST_CASE("kernel: save gives the size first, then the bytes") {
  Bench b;
  uint64_t bytes = 0;
  b.good(b.plugin->kernel->save(b.kernel, nullptr, 99, &bytes, &b.error));
  CHECK(bytes == 16);
  char place[20] = {};
  b.good(b.plugin->kernel->save(b.kernel, place, 16, &bytes, &b.error));
  CHECK(bytes == 16);
  CHECK(place[15] == 7);
  CHECK(place[16] == 0);
}

TEST_CASE("kernel: load makes a kernel like any other") {
  Bench b;
  tn_kernel* kernel = nullptr;
  b.good(b.plugin->kernel->load(b.device, &b.add.fragment(), "x", 1, &kernel, &b.error));
  CHECK(launch(b, kernel, {b.span(0, 256), b.span(256, 256), b.span(512, 256)}) == TN_OK);
  b.good(b.plugin->kernel->destroy(kernel, &b.error));
}
