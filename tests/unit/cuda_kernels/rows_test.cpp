// SPDX-License-Identifier: Apache-2.0
// rows_test.cpp: how softmax, losses and normalisations are laid over threads, blocks and steps.
#include "written.hpp"

using namespace kernels_test;

namespace {

Program softmax_over(uint32_t dtype, const std::vector<int64_t>& dims, int64_t axis) {
  FragmentBuilder f;
  f.node(TN_OP_softmax, {f.input(dtype, dims)}, {f.output(dtype, dims)}).integer("axis", axis);
  return written(f);
}

void layer_norm_grad(FragmentBuilder& f, uint32_t dtype, int64_t rows, int64_t length) {
  const uint32_t dy = f.input(dtype, {rows, length}), x = f.input(dtype, {rows, length}),
                 scale = f.input(TN_DTYPE_f32, {length}), mean = f.input(TN_DTYPE_f32, {rows}),
                 inverse = f.input(TN_DTYPE_f32, {rows});
  f.node(
       TN_OP_layer_norm_grad, {dy, x, scale, mean, inverse},
       {f.output(dtype, {rows, length}), f.output(TN_DTYPE_f32, {length}), f.output(TN_DTYPE_f32, {length})})
      .integer("axes", 1);
}

size_t count(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++out;
  return out;
}

}  // namespace

TEST_CASE("rows: one that fits a block's registers is read once, 16 bytes at a time") {
  const Program program = softmax_over(TN_DTYPE_f32, {4096, 1024}, 1);
  CHECK(program.steps.size() == 1);
  CHECK(program.workspace_bytes == 0);
  const std::string wide = entry(program, "step0_wide");
  CHECK(count(wide, "= load<") == 1);
  CHECK(holds(wide, "load<4, 16, true>"));
  CHECK(holds(wide, "join_neighbours<Greatest, 64, true>"));
  CHECK(holds(wide, "join_neighbours<Sum, 64, true>"));
  CHECK(holds(wide, "store<4, 16>"));
}

TEST_CASE("rows: of halves a block keeps no more elements than of f32, for they are computed with as such") {
  for (const uint32_t dtype : {TN_DTYPE_bf16, TN_DTYPE_f32}) {
    const Program most = softmax_over(dtype, {1024, 64 * 256}, 1),
                  more = softmax_over(dtype, {1024, 72 * 256}, 1);
    CHECK(holds(most.source, "TN_CROWDED_ENTRY(step0_wide, Addresses)"));
    CHECK(count(entry(most, "step0_wide"), "= load<") == 1);
    CHECK(holds(more.source, "TN_ENTRY(step0_wide, Addresses)"));
    CHECK(count(entry(more, "step0_wide"), "= load<") == 3);
  }
}

TEST_CASE(
    "rows: what all rows share comes by way of L1, and each row has a block of 128 threads of its own") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_bf16, {4096, 4096}), scale = f.input(TN_DTYPE_f32, {4096}),
                 bias = f.input(TN_DTYPE_f32, {4096});
  f.node(TN_OP_layer_norm, {x, scale, bias},
         {f.output(TN_DTYPE_bf16, {4096, 4096}), f.output(TN_DTYPE_f32, {4096}),
          f.output(TN_DTYPE_f32, {4096})})
      .integer("axes", 1)
      .real("epsilon", 1e-5);
  const Program program = written(f);
  CHECK(holds(program.source, "TN_LIGHT_ENTRY(step0_wide, Addresses)"));
  CHECK(program.steps[0].wide.threads == 128);
  CHECK(program.steps[0].wide.blocks == 4096);
  const std::string wide = entry(program, "step0_wide");
  CHECK(count(wide, "= load<8, 16, true>") == 1);
  CHECK(count(wide, "= load_again<8, 16>") == 2);
}

TEST_CASE("rows: short ones lie side by side, and a warp is all that meets") {
  const Program program = softmax_over(TN_DTYPE_bf16, {65536, 256}, -1);
  const std::string wide = entry(program, "step0_wide");
  CHECK(holds(wide, "join_neighbours<Sum, 8, true>"));
  CHECK(!holds(wide, "__shared__"));
  CHECK(program.steps[0].wide.blocks == 65536 / 32);
}

TEST_CASE("rows: longer ones are read again by each stage, in the same step") {
  const Program program = softmax_over(TN_DTYPE_f32, {1024, 1 << 17}, 1);
  CHECK(program.steps.size() == 1);
  CHECK(count(entry(program, "step0_wide"), "= load<4, 16, true>") == 3);
}

TEST_CASE("rows: a few long ones are each shared by many blocks, in several steps") {
  const Program program = softmax_over(TN_DTYPE_f32, {1 << 22}, 0);
  CHECK(program.steps.size() > 2);
  CHECK(program.steps[0].any.blocks > 66);
}

TEST_CASE("rows: where memory runs across them, neighbouring threads have neighbouring rows") {
  const std::string wide = entry(softmax_over(TN_DTYPE_f32, {64, 100, 4096}, 1), "step0_wide");
  CHECK(count(wide, "= load<4, 16, true>") == 1);
  CHECK(holds(wide, "share_strided<Sum, "));
  CHECK(holds(wide, "store<4, 16>"));
}

TEST_CASE("rows: what is added before a norm is part of its step, and written by it") {
  FragmentBuilder f;
  const std::vector<int64_t> dims{8192, 1024};
  const uint32_t a = f.input(TN_DTYPE_bf16, dims), b = f.input(TN_DTYPE_bf16, dims),
                 sum = f.output(TN_DTYPE_bf16, dims), scale = f.input(TN_DTYPE_f32, {1024}),
                 t = f.tensor(TN_DTYPE_bf16, dims);
  f.node(TN_OP_add, {a, b}, {sum});
  f.node(TN_OP_rms_norm, {sum, scale}, {t, f.output(TN_DTYPE_f32, {8192})})
      .integer("axes", 1)
      .real("epsilon", 1e-6);
  f.node(TN_OP_relu, {t}, {f.output(TN_DTYPE_bf16, dims)});
  const Program program = written(f);
  CHECK(program.steps.size() == 1);
  CHECK(program.workspace_bytes == 0);
  const std::string wide = entry(program, "step0_wide");
  CHECK(count(wide, "= load<8, 16, true>(static_cast<const bf16*>") == 2);
  CHECK(count(wide, "store<8, 16>(static_cast<bf16*>") == 2);
}

TEST_CASE("rows: sums over rows are parts of blocks, folded by a second step without atomics") {
  FragmentBuilder f;
  layer_norm_grad(f, TN_DTYPE_bf16, 8192, 4096);
  const Program program = written(f);
  REQUIRE(program.steps.size() == 2);
  CHECK(program.steps[0].wide.blocks == 264);
  CHECK(program.steps[0].any.blocks == 264);  // the last step reads as many parts either way
  CHECK(program.steps[1].any.name == "step1_last");
  CHECK(program.workspace_bytes == 2 * 264 * 4096 * sizeof(float));
  const std::string wide = entry(program, "step0_wide");
  CHECK(!holds(wide + entry(program, "step1_last"), "atomic"));
  CHECK(count(wide, "= load<8, 16, true>(static_cast<const bf16*>") == 2);
  // A block takes many rows, so what its threads share has been used before.
  CHECK(program.steps[0].wide.threads == 256);
  CHECK(holds(wide, "join_neighbours<Sum, 256>("));
  CHECK(!holds(wide, ", true>(part"));
}

TEST_CASE("rows: sums over rows that find no room in registers are steps of their own") {
  FragmentBuilder f;
  layer_norm_grad(f, TN_DTYPE_f64, 8192, 8192);
  const Program program = written(f);
  CHECK(program.steps.size() > 2);
  CHECK(!holds(entry(program, "step0_any"), "sum0["));
}

TEST_CASE("rows: a loss's gradient is element by element") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f16, {512, 1000}), labels = f.input(TN_DTYPE_i32, {512}),
                 log = f.input(TN_DTYPE_f32, {512}), dloss = f.input(TN_DTYPE_f32, {512});
  f.node(TN_OP_cross_entropy_grad, {x, labels, log, dloss}, {f.output(TN_DTYPE_f16, {512, 1000})})
      .integer("ignore_index", -100);
  const Program program = written(f);
  CHECK(program.steps.size() == 1);
  CHECK(!holds(entry(program, "step0_wide"), "join_"));
}

TEST_CASE("rows: what moves elements from row to row behind an op is a step of its own") {
  FragmentBuilder f;
  const uint32_t t = f.tensor(TN_DTYPE_f32, {64, 64});
  f.node(TN_OP_softmax, {f.input(TN_DTYPE_f32, {64, 64})}, {t}).integer("axis", 1);
  f.node(TN_OP_transpose, {t}, {f.output(TN_DTYPE_f32, {64, 64})}).integers("order", {1, 0});
  CHECK(written(f).steps.size() > 1);
}

TEST_CASE("rows: an op of no kernel beside them is refused by its name") {
  FragmentBuilder f;
  const uint32_t t = f.tensor(TN_DTYPE_f32, {8, 8});
  f.node(TN_OP_softmax, {f.input(TN_DTYPE_f32, {8, 8})}, {t}).integer("axis", 1);
  f.node(TN_OP_all_reduce, {t}, {f.output(TN_DTYPE_f32, {8, 8})}).integer("comm", 0).string("reduce", "sum");
  CHECK(holds(refused(f), "node 1 (all_reduce)"));
}

TEST_CASE("rows: the workspace that is foretold is at least what is used") {
  for (const int64_t length : {64, 1000, 4096, 1 << 15}) {
    FragmentBuilder f;
    layer_norm_grad(f, TN_DTYPE_f32, 4096, length);
    CAPTURE(length);
    CHECK(tenon::cuda::workspace_of(FragmentView(f.fragment()), {}) >= written(f).workspace_bytes);
  }
}
