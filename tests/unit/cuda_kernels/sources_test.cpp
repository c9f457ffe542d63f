// SPDX-License-Identifier: Apache-2.0
// sources_test.cpp: what a source says: how wide it moves, what it may read past the caches, how it counts.
#include "written.hpp"

using namespace kernels_test;

namespace {

void fused(FragmentBuilder& f) {
  const uint32_t x = f.input(TN_DTYPE_f16, {12, 64}), b = f.input(TN_DTYPE_f16, {64}),
                 t = f.tensor(TN_DTYPE_f16, {12, 64});
  f.node(TN_OP_add, {x, b}, {t});
  f.node(TN_OP_gelu, {t}, {f.output(TN_DTYPE_f16, {12, 64})}).integer("tanh", 1);
}

}  // namespace

TEST_CASE("source: equal fragments of other names and addresses give equal sources and launches") {
  FragmentBuilder one("one"), other("other");
  fused(one);
  fused(other);
  const Program a = written(one), b = written(other);
  CHECK(a.source == b.source);
  REQUIRE(a.steps.size() == 1);
  CHECK(a.steps[0].wide.name == b.steps[0].wide.name);
  CHECK(a.steps[0].wide.blocks == b.steps[0].wide.blocks);
}

TEST_CASE("source: it includes nothing, and names every step's entries") {
  FragmentBuilder f;
  fused(f);
  const Program program = written(f);
  CHECK(!holds(program.source, "#include"));
  CHECK(holds(program.source, "TN_ENTRY(" + program.steps[0].wide.name + ", Addresses)"));
  CHECK(holds(program.source, "TN_ENTRY(" + program.steps[0].any.name + ", Addresses)"));
  CHECK(holds(program.source, "struct Addresses { void* at[4]; };"));  // two inputs, an output, the workspace
}

TEST_CASE("source: a dense tensor is moved 16 bytes at a time, whatever its type") {
  for (const uint32_t dtype : {TN_DTYPE_u8, TN_DTYPE_f16, TN_DTYPE_f32, TN_DTYPE_f64}) {
    FragmentBuilder f;
    add(f, dtype, {1 << 16});
    const std::string lanes = std::to_string(128 / tenon::author::dtype_bits(dtype));
    const std::string wide = entry(written(f), "step0_wide");
    CAPTURE(tenon::author::dtype_name(dtype));
    CHECK(holds(wide, "load<" + lanes + ", 16, true>"));
    CHECK(holds(wide, "store<" + lanes + ", 16>"));
  }
}

TEST_CASE(
    "source: of large arrays a thread has one word each on its way, and more where it reads something "
    "again") {
  FragmentBuilder sum, scaled;
  const std::vector<int64_t> dims{1 << 20, 64};
  const auto in = [&](FragmentBuilder& f) { return f.input(TN_DTYPE_f32, dims); };
  const uint32_t two = sum.tensor(TN_DTYPE_f32, dims), three = sum.output(TN_DTYPE_f32, dims);
  sum.node(TN_OP_add, {in(sum), in(sum)}, {two});
  sum.node(TN_OP_add, {two, in(sum)}, {three});
  const std::string plain = entry(written(sum), "step0_wide");
  for (const char* const array : {"x0", "x1", "x3"})
    CHECK(holds(plain, std::string("Lanes<f32, 4> ") + array + "[1];"));
  const uint32_t channels = scaled.input(TN_DTYPE_f32, {64}), t = scaled.tensor(TN_DTYPE_f32, dims);
  scaled.node(TN_OP_mul, {in(scaled), channels}, {t});
  scaled.node(TN_OP_add, {t, in(scaled)}, {scaled.output(TN_DTYPE_f32, dims)});
  const std::string again = entry(written(scaled), "step0_wide");
  CHECK(holds(again, "Lanes<f32, 4> x0[4];"));
  CHECK(holds(again, "Lanes<f32, 4> x1[1];"));  // the channels
}

TEST_CASE("source: a wider tensor beside a narrow one takes several words for the same elements") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f16, {4096});
  f.node(TN_OP_cast, {x}, {f.output(TN_DTYPE_f32, {4096})}).dtype("dtype", TN_DTYPE_f32);
  const std::string wide = entry(written(f), "step0_wide");
  CHECK(holds(wide, "load<8, 16, true>"));
  CHECK(holds(wide, "store<8, 16>"));  // two words
}

TEST_CASE("source: a single loop of odd size keeps its wide words and has a tail") {
  FragmentBuilder f;
  add(f, TN_DTYPE_f32, {1003});
  const std::string wide = entry(written(f), "step0_wide");
  CHECK(holds(wide, "load<4, 16, true>"));
  CHECK(holds(wide, "threadIdx.x < 3u"));
}

TEST_CASE("source: rows that start at odd places are not moved wide") {
  FragmentBuilder f;
  add(f, TN_DTYPE_f32, {8, 63}, {65, 1});
  CHECK(written(f).steps[0].wide.name.empty());
}

TEST_CASE("source: an operand off its alignment is read by itself, the others stay wide") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {4, 65}), y = f.input(TN_DTYPE_f32, {4, 64}),
                 part = f.tensor(TN_DTYPE_f32, {4, 64});
  f.node(TN_OP_slice, {x}, {part})
      .integers("begin", {0, 1})
      .integers("end", {4, 65})
      .integers("step", {1, 1});
  f.node(TN_OP_add, {part, y}, {f.output(TN_DTYPE_f32, {4, 64})});
  const std::string wide = entry(written(f), "step0_wide");
  CHECK(holds(wide, "load<4, 4, true>(static_cast<const f32*>(p.at[0])"));
  CHECK(holds(wide, "load<4, 16, true>(static_cast<const f32*>(p.at[1])"));
}

TEST_CASE("source: the other entry asks nothing of addresses but the element's own alignment") {
  FragmentBuilder f;
  fused(f);
  const std::string any = entry(written(f), "step0_any");
  CHECK(holds(any, "load<1, 2, true>"));
  CHECK(!holds(any, ", 16"));
}

TEST_CASE("source: a permuted output is walked as it lies") {
  FragmentBuilder f;
  const std::vector<int64_t> dims{2, 64, 7, 7}, last{64 * 49, 1, 7 * 64, 64};
  f.node(TN_OP_relu, {f.input(TN_DTYPE_f32, dims, last)}, {f.output(TN_DTYPE_f32, dims, last)});
  const std::string wide = entry(written(f), "step0_wide");
  CHECK(holds(wide, "load<4, 16, true>"));
  CHECK(!holds(wide, "%"));  // one loop over all of it
}

TEST_CASE("source: offsets take 64 bits exactly when 31 do not hold them") {
  FragmentBuilder small, large;
  add(small, TN_DTYPE_u8, {(int64_t{1} << 31) - 16});
  add(large, TN_DTYPE_u8, {int64_t{1} << 31});
  CHECK(holds(entry(written(small), "step0_wide"), "const u32 chunk"));
  CHECK(holds(entry(written(large), "step0_wide"), "const u64 chunk"));
}

TEST_CASE("source: halves are rounded once behind each op, and not where nothing is lost") {
  FragmentBuilder f;
  fused(f);
  const std::string any = entry(written(f), "step0_any");
  CHECK(holds(any, "rounded<f16>(add("));
  CHECK(holds(any, "rounded<f16>(gelu("));
  FragmentBuilder exact;
  exact.node(TN_OP_neg, {exact.input(TN_DTYPE_f16, {8})}, {exact.output(TN_DTYPE_f16, {8})});
  CHECK(!holds(entry(written(exact), "step0_any"), "rounded<"));
}

TEST_CASE("source: outputs of different dims are different steps, of equal dims one") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {4}), y = f.input(TN_DTYPE_f32, {3, 4});
  f.node(TN_OP_exp, {x}, {f.output(TN_DTYPE_f32, {4})});
  f.node(TN_OP_add, {x, y}, {f.output(TN_DTYPE_f32, {3, 4})});
  f.node(TN_OP_mul, {x, y}, {f.output(TN_DTYPE_f32, {3, 4})});
  CHECK(written(f).steps.size() == 2);
}

TEST_CASE("source: without elements there is nothing to launch") {
  FragmentBuilder f;
  add(f, TN_DTYPE_f32, {4, 0, 3});
  CHECK(written(f).steps.empty());
}

TEST_CASE("source: a value that two nodes need is computed once") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {64}), e = f.tensor(TN_DTYPE_f32, {64});
  f.node(TN_OP_exp, {x}, {e});
  f.node(TN_OP_mul, {e, e}, {f.output(TN_DTYPE_f32, {64})});
  const std::string any = entry(written(f), "step0_any");
  CHECK(any.find("exp(") == any.rfind("exp("));
}

TEST_CASE("source: what only moves is read where it lies") {
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {64, 32}), turned = f.tensor(TN_DTYPE_f32, {32, 64});
  f.node(TN_OP_transpose, {x}, {turned}).integers("order", {1, 0});
  f.node(TN_OP_reshape, {turned}, {f.output(TN_DTYPE_f32, {2048})}).integers("shape", {2048});
  const Program program = written(f);
  CHECK(program.steps.size() == 1);
  CHECK(program.workspace_bytes == 0);
  CHECK(holds(entry(program, "step0_any"), "i1 * 32u"));
}

TEST_CASE("source: of integers every number is finite, so nothing is read") {
  FragmentBuilder whole, real;
  whole.node(TN_OP_is_finite, {whole.input(TN_DTYPE_i32, {64})}, {whole.output(TN_DTYPE_bool, {64})});
  real.node(TN_OP_is_finite, {real.input(TN_DTYPE_f32, {64})}, {real.output(TN_DTYPE_bool, {64})});
  CHECK(!holds(entry(written(whole), "step0_any"), "load<"));
  CHECK(holds(entry(written(real), "step0_any"), "load<"));
}
