// SPDX-License-Identifier: Apache-2.0
// windows_test.cpp: how pools, their gradients and sums by index are laid over threads and steps, and what is refused.
#include "written.hpp"

using namespace kernels_test;

namespace {

using Dims = std::vector<int64_t>;

Dims strides_of(const Dims& dims, bool last) {
  if (last) return {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]};
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

// Windows of `size` by `size`, one place apart, over 32 × 32 images of 64 channels.
void pool(FragmentBuilder& f, uint32_t op, uint32_t dtype, bool last, int64_t size) {
  const Dims x{4, 64, 32, 32}, y{4, 64, 33 - size, 33 - size};
  const bool backward = op == TN_OP_max_pool_grad;
  const auto input = [&](const Dims& dims) { return f.input(dtype, dims, strides_of(dims, last)); };
  std::vector<uint32_t> inputs{input(backward ? y : x)};
  if (backward) inputs.push_back(input(x));
  const Dims& made = backward ? x : y;
  auto& node = f.node(op, inputs, {f.output(dtype, made, strides_of(made, last))});
  node.integers("kernel", {size, size}).integers("stride", {1, 1}).integers("pad", {0, 0, 0, 0});
  if (op == TN_OP_avg_pool) node.integer("count_pad", 0);
}

void sums(FragmentBuilder& f, int64_t indices, int64_t rows, int64_t width) {
  f.node(TN_OP_embedding_grad, {f.input(TN_DTYPE_i64, {indices}), f.input(TN_DTYPE_f16, {indices, width})},
         {f.output(TN_DTYPE_f16, {rows, width})})
      .integer("rows", rows);
}

std::vector<std::string> names_of(const Program& program) {
  std::vector<std::string> out;
  for (const auto& step : program.steps) out.push_back(step.any.name);
  return out;
}

}  // namespace

TEST_CASE("pool: where channels are neighbours a thread takes 16 bytes of them, elsewhere one result") {
  FragmentBuilder last, first;
  pool(last, TN_OP_max_pool, TN_DTYPE_bf16, true, 3);
  pool(first, TN_OP_max_pool, TN_DTYPE_bf16, false, 3);
  const Program wide = written(last);
  CHECK(holds(entry(wide, "step0_wide"), "load<8, 16, false>"));
  CHECK(holds(entry(wide, "step0_wide"), "store<8, 16>"));
  CHECK(wide.steps[0].any.blocks > 7 * wide.steps[0].wide.blocks);
  CHECK(written(first).steps[0].wide.name.empty());
}

TEST_CASE("pool: channels that do not fill words are taken one by one") {
  FragmentBuilder f;
  const Dims x{1, 12, 8, 8}, y{1, 12, 7, 7};
  f.node(TN_OP_avg_pool, {f.input(TN_DTYPE_bf16, x, strides_of(x, true))},
         {f.output(TN_DTYPE_bf16, y, strides_of(y, true))})
      .integers("kernel", {2, 2})
      .integers("stride", {1, 1})
      .integers("pad", {0, 0, 0, 0})
      .integer("count_pad", 0);
  CHECK(written(f).steps[0].wide.name.empty());
}

TEST_CASE("pool: the size of a window is not the size of its source") {
  FragmentBuilder small, large;
  pool(small, TN_OP_avg_pool, TN_DTYPE_f32, true, 2);
  pool(large, TN_OP_avg_pool, TN_DTYPE_f32, true, 31);
  CHECK(written(large).source.size() < written(small).source.size() + 100);
}

TEST_CASE(
    "pool: a gradient notes each window's winner in a byte, in two where a byte does not tell them apart") {
  FragmentBuilder bytes, words;
  pool(bytes, TN_OP_max_pool_grad, TN_DTYPE_bf16, true, 3);
  pool(words, TN_OP_max_pool_grad, TN_DTYPE_bf16, true, 17);
  const Program noted = written(bytes);
  REQUIRE(noted.steps.size() == 2);
  CHECK(noted.workspace_bytes == 4 * 64 * 30 * 30);
  CHECK(written(words).workspace_bytes == 4 * 64 * 16 * 16 * 2);
  CHECK(holds(entry(noted, "step0_wide"), "store<8, 8>"));
  CHECK(holds(entry(noted, "step1_wide"), "load<8, 8, false>(static_cast<u8*>(p.at[3])"));
  CHECK(tenon::cuda::workspace_of(FragmentView(bytes.fragment()), {}) == noted.workspace_bytes);
}

TEST_CASE("pool: one with neighbours, or of a constant, is refused") {
  FragmentBuilder two, constant;
  pool(two, TN_OP_max_pool, TN_DTYPE_f32, false, 3);
  two.node(TN_OP_relu, {two.input(TN_DTYPE_f32, {4})}, {two.output(TN_DTYPE_f32, {4})});
  CHECK(holds(refused(two), "the fragment has 2 nodes; at most 1"));
  const uint32_t x = constant.constant(TN_DTYPE_f32, {1, 1, 2, 2}, std::vector<std::byte>(16));
  constant.node(TN_OP_max_pool, {x}, {constant.output(TN_DTYPE_f32, {1, 1, 1, 1})})
      .integers("kernel", {2, 2})
      .integers("stride", {1, 1})
      .integers("pad", {0, 0, 0, 0});
  CHECK(holds(refused(constant), "node 0 (max_pool): input 0 is a constant: bind it"));
}

TEST_CASE("embedding_grad: a pass sorts by eight bits of the rows, and no float is added atomically") {
  FragmentBuilder few, many;
  sums(few, 1000, 200, 64);
  sums(many, 1000, 50000, 64);
  const Program program = written(few);
  CHECK(names_of(program) ==
        std::vector<std::string>{"count0", "sum0", "place0", "starts", "pieces_any", "rows_any"});
  CHECK(names_of(written(many)).size() == 9);
  CHECK(holds(entry(program, "rows_wide"), "load<8, 16, true>"));
  CHECK(!holds(entry(program, "rows_wide"), "atomic"));
}

TEST_CASE("embedding_grad: the workspace grows with indices and rows, not with their product") {
  FragmentBuilder small, large;
  sums(small, 1 << 14, 1 << 14, 64);
  sums(large, 1 << 18, 1 << 18, 64);
  const uint64_t bytes = written(small).workspace_bytes;
  CHECK(written(large).workspace_bytes < 20 * bytes);
  CHECK(tenon::cuda::workspace_of(FragmentView(small.fragment()), {}) == bytes);
}

TEST_CASE(
    "embedding_grad: without indices the table is zeros in one step, without a table there is no step") {
  FragmentBuilder zeros, none;
  sums(zeros, 0, 10, 4);
  sums(none, 10, 10, 0);
  CHECK(names_of(written(zeros)) == std::vector<std::string>{"rows_any"});
  CHECK(written(none).steps.empty());
}

TEST_CASE("embedding_grad: more rows than are sorted are refused with their number") {
  FragmentBuilder f;
  sums(f, 10, int64_t{1} << 31, 1);
  CHECK(holds(refused(f), "10 indices of 2147483648 rows"));
}
