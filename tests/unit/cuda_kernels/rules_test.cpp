// SPDX-License-Identifier: Apache-2.0
// rules_test.cpp: what is refused, in words that name the node, its figures and the way out; and what asking costs.
#include "support/counted_new.hpp"
#include "written.hpp"

using namespace kernels_test;
using tenon::test::allocations;

TEST_CASE("rules: asking about a fragment that is taken allocates nothing") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {8, 16}), t = f.tensor(TN_DTYPE_f32, {8, 16}),
                 s = f.tensor(TN_DTYPE_f32, {8});
  f.node(TN_OP_exp, {x}, {t});
  f.node(TN_OP_sum, {t}, {s}).integers("axes", {1}).integer("keepdims", 0);
  f.node(TN_OP_reshape, {s}, {f.output(TN_DTYPE_f32, {2, 4})}).integers("shape", {2, 4});
  const FragmentView view(f.fragment());
  const uint64_t before = allocations;
  const bool taken = tenon::cuda::check_fragment(view).ok();
  CHECK(allocations - before == 0);
  CHECK(taken);
}

TEST_CASE("rules: an op without a kernel is refused by its name and number in the fragment") {
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {4, 4}), b = f.tensor(TN_DTYPE_f32, {4, 4});
  f.node(TN_OP_exp, {a}, {b});
  f.node(TN_OP_matmul, {b, b}, {f.output(TN_DTYPE_f32, {4, 4})})
      .integer("transpose_a", 0)
      .integer("transpose_b", 0);
  const std::string reason = refused(f);
  CHECK(holds(reason, "node 1 (matmul)"));
  CHECK(holds(reason, "another device"));
}

TEST_CASE("rules: dtypes that ops.def forbids are invalid, with all of them told") {
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {4}), b = f.input(TN_DTYPE_i32, {4});
  f.node(TN_OP_add, {a, b}, {f.output(TN_DTYPE_f32, {4})});
  CHECK(refused(f, TN_INVALID) == "node 0 (add): takes one type that is not bool; it got f32, i32 → f32");
}

TEST_CASE("rules: shapes that do not fit are invalid, with both sides told") {
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {4, 3}), b = f.input(TN_DTYPE_f32, {4});
  f.node(TN_OP_add, {a, b}, {f.output(TN_DTYPE_f32, {4, 3})});
  CHECK(refused(f, TN_INVALID) == "node 0 (add): [4] does not broadcast with the other inputs (4 meets 3)");

  FragmentBuilder sum;
  sum.node(TN_OP_sum, {sum.input(TN_DTYPE_f32, {4, 3})}, {sum.output(TN_DTYPE_f32, {3})})
      .integers("axes", {1})
      .integer("keepdims", 0);
  CHECK(refused(sum, TN_INVALID) == "node 0 (sum): output 0 is [3] and must be [4]");
}

TEST_CASE("rules: a missing attribute is invalid by its name") {
  FragmentBuilder f;
  f.node(TN_OP_sum, {f.input(TN_DTYPE_f32, {4})}, {f.output(TN_DTYPE_f32, {})}).integer("keepdims", 0);
  CHECK(refused(f, TN_INVALID) == "node 0 (sum): attribute 'axes' is missing");
}

TEST_CASE("rules: a large constant has to be bound, a small one is part of the source") {
  const auto with_constant = [](FragmentBuilder& f, int64_t count) {
    std::vector<std::byte> bytes(static_cast<size_t>(count) * 4);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i / 4 % 100);
    const uint32_t x = f.input(TN_DTYPE_i32, {count}), c = f.constant(TN_DTYPE_i32, {count}, bytes);
    f.node(TN_OP_add, {x, c}, {f.output(TN_DTYPE_i32, {count})});
  };
  FragmentBuilder large, small;
  with_constant(large, 1 << 15);
  with_constant(small, 1 << 14);
  CHECK(holds(refused(large), "bind it as an input"));
  CHECK(holds(written(small).source, "alignas(16) __device__ const u32 constant1[]"));
}

TEST_CASE("rules: an output whose elements share places is invalid") {
  FragmentBuilder f;
  f.node(TN_OP_neg, {f.input(TN_DTYPE_f32, {4, 4})}, {f.output(TN_DTYPE_f32, {4, 4}, {3, 1})});
  CHECK(holds(refused(f, TN_INVALID), "two elements may share a place"));
}

TEST_CASE("rules: what is read before it is computed, or computed twice, is invalid") {
  FragmentBuilder early;
  const uint32_t x = early.input(TN_DTYPE_f32, {4}), t = early.tensor(TN_DTYPE_f32, {4});
  early.node(TN_OP_add, {x, t}, {early.output(TN_DTYPE_f32, {4})});
  early.node(TN_OP_neg, {x}, {t});
  CHECK(refused(early, TN_INVALID) == "node 0 (add): reads tensor 1 before it is made");

  FragmentBuilder twice;
  const uint32_t y = twice.input(TN_DTYPE_f32, {4}), z = twice.output(TN_DTYPE_f32, {4});
  twice.node(TN_OP_neg, {y}, {z});
  twice.node(TN_OP_abs, {y}, {z});
  CHECK(refused(twice, TN_INVALID) == "node 1 (abs): makes tensor 1 a second time");
}

TEST_CASE("rules: the greatest of nothing is invalid") {
  FragmentBuilder f;
  f.node(TN_OP_argmax, {f.input(TN_DTYPE_f32, {3, 0})}, {f.output(TN_DTYPE_i64, {3})})
      .integers("axes", {1})
      .integer("keepdims", 0);
  CHECK(holds(refused(f, TN_INVALID), "nothing has no greatest"));
}

TEST_CASE("rules: a fragment too large for one program says how large one may be") {
  FragmentBuilder f;
  uint32_t last = f.input(TN_DTYPE_f32, {4});
  for (int i = 0; i < 129; ++i) {
    const uint32_t next = i == 128 ? f.output(TN_DTYPE_f32, {4}) : f.tensor(TN_DTYPE_f32, {4});
    f.node(TN_OP_neg, {last}, {next});
    last = next;
  }
  CHECK(refused(f) == "the fragment has 129 nodes; at most 128 become one program: cut it");
}

TEST_CASE("rules: a node with a tensor of a private layout is refused") {
  FragmentBuilder f;
  add(f, TN_DTYPE_f32, {4});
  tn_fragment fragment = f.fragment();
  std::vector<tn_tensor> tensors(fragment.tensors, fragment.tensors + fragment.tensor_count);
  tensors[0].layout = 1;
  fragment.tensors = tensors.data();
  const tenon::Status said = tenon::cuda::check_fragment(FragmentView(fragment));
  CHECK(said.code() == TN_UNSUPPORTED);
  CHECK(holds(std::string(said.message()), "tensor 0 has private layout 1"));
}
