// SPDX-License-Identifier: Apache-2.0
// reductions_test.cpp: how reductions are laid over threads, blocks and steps.
#include "written.hpp"

using namespace cuda_test;

namespace {

Program sum_over(uint32_t dtype, const std::vector<int64_t>& dims, const std::vector<int64_t>& axes,
                 const Target& target = {}) {
  std::vector<int64_t> left;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) left.push_back(dims[i]);
  }
  FragmentBuilder f;
  f.node(TN_OP_sum, {f.input(dtype, dims)}, {f.output(dtype, left)})
      .integers("axes", axes)
      .integer("keepdims", 0);
  return written(f, target);
}

}  // namespace

TEST_CASE("reduction: contiguous rows are folded by neighbouring threads, 16 bytes at a time") {
  const Program program = sum_over(TN_DTYPE_f32, {4096, 1024}, {1});
  CHECK(program.steps.size() == 1);
  CHECK(program.workspace_bytes == 0);
  const std::string wide = entry(program, "step0_wide");
  CHECK(holds(wide, "load<4, 16, true>"));
  CHECK(holds(wide, "join_neighbours<Sum, 64>"));
}

TEST_CASE("reduction: columns are folded side by side, 16 bytes of outputs a thread") {
  const std::string wide = entry(sum_over(TN_DTYPE_f16, {4096, 1 << 18}, {0}), "step0_wide");
  CHECK(holds(wide, "load<8, 16, true>"));
  CHECK(holds(wide, "join_strided<Sum, 32>"));
  CHECK(holds(wide, "store<8, 16>"));
}

TEST_CASE("reduction: few outputs are shared by many blocks, in two steps and a workspace, without atomics") {
  const Program program = sum_over(TN_DTYPE_f32, {1 << 24}, {0});
  REQUIRE(program.steps.size() == 2);
  CHECK(program.steps[0].wide.blocks >= 132);
  CHECK(program.steps[0].wide.blocks ==
        program.steps[0].any.blocks);  // the last step reads as many parts either way
  CHECK(program.steps[1].wide.name.empty());
  CHECK(program.steps[1].any.blocks == 1);
  CHECK(program.workspace_bytes >= program.steps[0].wide.blocks * sizeof(float));
  CHECK(!holds(entry(program, "step0_wide") + entry(program, "step0_last"), "atomic"));
}

TEST_CASE("reduction: how far it is split depends on the device") {
  const Program small = sum_over(TN_DTYPE_f32, {1 << 24}, {0}, {.sm = 75, .multiprocessors = 14});
  const Program large = sum_over(TN_DTYPE_f32, {1 << 24}, {0}, {.sm = 90, .multiprocessors = 132});
  CHECK(small.steps[0].any.blocks < large.steps[0].any.blocks);
}

TEST_CASE("reduction: what comes before and after it is part of the same step") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {512, 4096}), a = f.tensor(TN_DTYPE_f32, {512, 4096}),
                 b = f.tensor(TN_DTYPE_f32, {512});
  f.node(TN_OP_square, {x}, {a});
  f.node(TN_OP_mean, {a}, {b}).integers("axes", {1}).integer("keepdims", 0);
  f.node(TN_OP_rsqrt, {b}, {f.output(TN_DTYPE_f32, {512})});
  const Program program = written(f);
  CHECK(program.steps.size() == 1);
  CHECK(program.workspace_bytes == 0);
  const std::string wide = entry(program, "step0_wide");
  CHECK(wide.find("square(") < wide.find("join_neighbours"));
  CHECK(wide.find("rsqrt(") > wide.find("join_neighbours"));
}

TEST_CASE("reduction: two over the same dims share a pass over memory") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {512, 4096});
  f.node(TN_OP_sum, {x}, {f.output(TN_DTYPE_f32, {512})}).integers("axes", {1}).integer("keepdims", 0);
  f.node(TN_OP_reduce_max, {x}, {f.output(TN_DTYPE_f32, {512})}).integers("axes", {1}).integer("keepdims", 0);
  const Program program = written(f);
  CHECK(program.steps.size() == 1);
  const std::string wide = entry(program, "step0_wide");
  CHECK(wide.find("load<4, 16, true>") == wide.rfind("load<4, 16, true>"));
}

TEST_CASE("reduction: one that needs another waits for it in a step of its own") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {64, 100}), most = f.tensor(TN_DTYPE_f32, {64, 1}),
                 less = f.tensor(TN_DTYPE_f32, {64, 100});
  f.node(TN_OP_reduce_max, {x}, {most}).integers("axes", {1}).integer("keepdims", 1);
  f.node(TN_OP_sub, {x, most}, {less});
  f.node(TN_OP_sum, {less}, {f.output(TN_DTYPE_f32, {64})}).integers("axes", {1}).integer("keepdims", 0);
  const Program program = written(f);
  CHECK(program.steps.size() == 2);
  CHECK(program.workspace_bytes == 256);
  // What a step wrote is not read past the caches by the next.
  CHECK(holds(entry(program, "step1_any"),
              "false>(reinterpret_cast<const f32*>(static_cast<u8*>(p.at[2]) + 0ull)"));
}

TEST_CASE("reduction: halves accumulate in f32, integers in their own width") {
  CHECK(holds(entry(sum_over(TN_DTYPE_bf16, {64, 256}, {1}), "step0_any"), "f32 part0["));
  CHECK(holds(entry(sum_over(TN_DTYPE_i8, {64, 256}, {1}), "step0_any"), "i8 part0["));
}

TEST_CASE("reduction: the workspace that is foretold is at least what is used, for common shapes") {
  struct Case {
    std::vector<int64_t> dims, axes;
  };
  for (const Case& one :
       {Case{{1 << 24}, {0}}, Case{{4096, 4096}, {1}}, Case{{64, 256, 28, 28}, {0, 2, 3}}, Case{{7}, {0}}}) {
    std::vector<int64_t> left;
    for (size_t i = 0; i < one.dims.size(); ++i) {
      if (std::find(one.axes.begin(), one.axes.end(), static_cast<int64_t>(i)) == one.axes.end())
        left.push_back(one.dims[i]);
    }
    FragmentBuilder f;
    f.node(TN_OP_sum, {f.input(TN_DTYPE_f32, one.dims)}, {f.output(TN_DTYPE_f32, left)})
        .integers("axes", one.axes)
        .integer("keepdims", 0);
    CAPTURE(one.dims.size());
    CHECK(tenon::cuda::workspace_of(FragmentView(f.fragment()), {}) >= written(f).workspace_bytes);
  }
}
