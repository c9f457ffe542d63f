// SPDX-License-Identifier: Apache-2.0
// groups_test.cpp: fragments of several kinds of node, nodes that work in place, and tensors of nothing.
//
// Invariant: a group gives what its nodes give one by one, bit for bit; what one op gives is the conformance kit's affair.
#include "tensors.hpp"

using namespace cpu_test;

namespace {

Tensor numbers(uint32_t dtype, const Dims& dims, const std::vector<Number>& values) {
  Tensor out(dtype, dims);
  size_t i = 0;
  for_each(dims, [&](const Dims& at) { out.set(at, values[i++]); });
  return out;
}

Tensor word(uint64_t value) {
  Tensor out(TN_DTYPE_u64, {});
  std::memcpy(out.bytes.data(), &value, sizeof value);
  return out;
}

std::vector<Number> values_of(const Tensor& tensor) {
  std::vector<Number> out;
  for_each(tensor.dims, [&](const Dims& at) { out.push_back(tensor.at(at)); });
  return out;
}

// The result of a fragment of one node, made by `node(fragment, input tensors, output tensor)`.
template <class Node>
Tensor alone(Bench& bench, const std::vector<const Tensor*>& inputs, Tensor result, Node&& node) {
  FragmentBuilder f("alone");
  std::vector<uint32_t> in;
  for (const Tensor* one : inputs) in.push_back(f.input(one->dtype, one->dims, one->strides));
  node(f, in, f.output(result.dtype, result.dims, result.strides));
  bench.run(compile(bench.device, f.fragment()), inputs, {&result});
  return result;
}

void drop(FragmentBuilder& f, const std::vector<uint32_t>& inputs, uint32_t output) {
  f.node(TN_OP_dropout, inputs, {output}).integer("key", 3).real("rate", 0.25);
}
void advance(FragmentBuilder& f, uint32_t from, uint32_t to) {
  f.node(TN_OP_advance, {from}, {to}).integer("by", 1000);
}

}  // namespace

TEST_CASE("groups: lookup, dropout, sum and slice in one fragment equal their parts") {
  Bench bench;
  Random random(tenon::test::seed());
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f64}) {
    Tensor table(dtype, {50, 36});
    randomize(table, random, false);
    const Tensor indices = numbers(TN_DTYPE_i32, {2, 3}, {7, 0, 49, 7, 50, -1}), seed = word(random()),
                 at = word(random());
    const Tensor rows = alone(bench, {&indices, &table}, Tensor(dtype, {2, 3, 36}),
                              [](auto& f, auto& in, uint32_t out) { f.node(TN_OP_embedding, in, {out}); });
    const Tensor thin = alone(bench, {&rows, &seed, &at}, Tensor(dtype, {2, 3, 36}),
                              [](auto& f, auto& in, uint32_t out) { drop(f, in, out); });
    const Tensor both = alone(bench, {&thin, &rows}, Tensor(dtype, {2, 3, 36}),
                              [](auto& f, auto& in, uint32_t out) { f.node(TN_OP_add, in, {out}); });
    const auto cut = [](FragmentBuilder& f, uint32_t from, uint32_t to) {
      f.node(TN_OP_slice, {from}, {to})
          .integers("begin", {0, 1, 3})
          .integers("end", {2, 3, 36})
          .integers("step", {1, 1, 4});
    };
    const Tensor expected = alone(bench, {&both}, Tensor(dtype, {2, 2, 9}),
                                  [&](auto& f, auto& in, uint32_t out) { cut(f, in[0], out); });

    FragmentBuilder f("group");
    const uint32_t i = f.input(TN_DTYPE_i32, {2, 3}), t = f.input(dtype, {50, 36}),
                   s = f.input(TN_DTYPE_u64, {}), o = f.input(TN_DTYPE_u64, {});
    const uint32_t r = f.tensor(dtype, {2, 3, 36}), d = f.tensor(dtype, {2, 3, 36}),
                   b = f.tensor(dtype, {2, 3, 36});
    f.node(TN_OP_embedding, {i, t}, {r});
    drop(f, {r, s, o}, d);
    f.node(TN_OP_add, {d, r}, {b});
    cut(f, b, f.output(dtype, {2, 2, 9}));
    const tn_support said = supports(bench.device, f.fragment());
    CHECK(said.verdict == TN_SUPPORT_EMULATED);
    CHECK(std::string(said.reason).find("node 1 (dropout) reads what another step made") !=
          std::string::npos);
    Tensor got(dtype, {2, 2, 9});
    bench.run(compile(bench.device, f.fragment()), {&indices, &table, &seed, &at}, {&got});
    CHECK(got.bytes == expected.bytes);
  }
}

TEST_CASE("groups: nodes that share nothing are no emulation") {
  Bench bench;
  FragmentBuilder f("two offsets");
  const uint32_t a = f.input(TN_DTYPE_u64, {}), b = f.input(TN_DTYPE_u64, {});
  advance(f, a, f.output(TN_DTYPE_u64, {}));
  advance(f, b, f.output(TN_DTYPE_u64, {}));
  CHECK(supports(bench.device, f.fragment()).verdict == TN_SUPPORT_NATIVE);
}

TEST_CASE("in place: every node of a fragment may renew its own input") {
  Bench bench;
  Random random(tenon::test::seed());
  Tensor x(TN_DTYPE_f32, {70'000});
  randomize(x, random, false);
  const Tensor seed = word(random()), at = word(random());
  const Tensor thin =
      alone(bench, {&x, &seed, &at}, x, [](auto& f, auto& in, uint32_t out) { drop(f, in, out); });
  const Tensor next =
      alone(bench, {&at}, at, [](auto& f, auto& in, uint32_t out) { advance(f, in[0], out); });

  FragmentBuilder f("a step's randomness");
  const uint32_t in = f.input(TN_DTYPE_f32, {70'000}), s = f.input(TN_DTYPE_u64, {}),
                 o = f.input(TN_DTYPE_u64, {});
  drop(f, {in, s, o}, f.output(TN_DTYPE_f32, {70'000}));
  advance(f, o, f.output(TN_DTYPE_u64, {}));
  f.alias(0, 0);
  f.alias(2, 1);
  REQUIRE(supports(bench.device, f.fragment()).alias_mask == 3);
  const auto got = bench.run_in_place(compile(bench.device, f.fragment()), {&x, &seed, &at}, {0, 2});
  CHECK(got[0] == thin.bytes);
  CHECK(got[1] == next.bytes);
}

TEST_CASE("in place: refused while somebody is still to read the input") {
  Bench bench;
  const auto mask = [&](auto&& build) {
    FragmentBuilder f;
    const uint32_t offset = f.input(TN_DTYPE_u64, {}), x = f.input(TN_DTYPE_f32, {8});
    build(f, offset, x);
    f.alias(0, 0);
    return supports(bench.device, f.fragment()).alias_mask;
  };
  const auto later_reader = [](FragmentBuilder& f, uint32_t offset, uint32_t x) {
    advance(f, offset, f.output(TN_DTYPE_u64, {}));
    drop(f, {x, offset, offset}, f.output(TN_DTYPE_f32, {8}));
  };
  const auto no_pair = [](FragmentBuilder& f, uint32_t offset, uint32_t) {
    f.node(TN_OP_reshape, {offset}, {f.output(TN_DTYPE_u64, {})}).integers("shape", {});
  };
  const auto only = [](FragmentBuilder& f, uint32_t offset, uint32_t) {
    advance(f, offset, f.output(TN_DTYPE_u64, {}));
  };
  CHECK(mask(later_reader) == 0);
  CHECK(mask(no_pair) == 0);
  CHECK(mask(only) == 1);
}

TEST_CASE("in place: an input that is handed through as an output keeps its value") {
  Bench bench;
  FragmentBuilder f;
  const uint32_t offset = f.input(TN_DTYPE_u64, {});
  advance(f, offset, f.output(TN_DTYPE_u64, {}));
  f.alias(0, 0);
  tn_fragment fragment = f.fragment();
  const uint32_t outputs[] = {fragment.outputs[0], offset};
  fragment.outputs = outputs;
  fragment.output_count = 2;
  CHECK(supports(bench.device, fragment).alias_mask == 0);
}

TEST_CASE("lookup: an index outside the table reads zeros, and its gradient goes nowhere") {
  Bench bench;
  const Tensor table = numbers(TN_DTYPE_f32, {2, 2}, {1, 2, 3, 4});
  for (const uint32_t dtype : {TN_DTYPE_i8, TN_DTYPE_i64, TN_DTYPE_u64, TN_DTYPE_u16}) {
    const Tensor indices = numbers(dtype, {4}, {1, rounded(-1, dtype), 2, 0});
    const Number low =
        dtype == TN_DTYPE_i8 || dtype == TN_DTYPE_i64 ? 0 : 1;  // an unsigned -1 saturates to 0
    const Tensor rows = alone(bench, {&indices, &table}, Tensor(TN_DTYPE_f32, {4, 2}),
                              [](auto& f, auto& in, uint32_t out) { f.node(TN_OP_embedding, in, {out}); });
    CHECK(values_of(rows) == std::vector<Number>{3, 4, low, 2 * low, 0, 0, 1, 2});
    const Tensor dy = numbers(TN_DTYPE_f32, {4, 2}, {1, 2, 10, 20, 100, 200, 1000, 2000});
    const Tensor grad = alone(
        bench, {&indices, &dy}, Tensor(TN_DTYPE_f32, {2, 2}),
        [](auto& f, auto& in, uint32_t out) { f.node(TN_OP_embedding_grad, in, {out}).integer("rows", 2); });
    CHECK(values_of(grad) == std::vector<Number>{1000 + 10 * low, 2000 + 20 * low, 1, 2});
  }
}

TEST_CASE("lookup: a gradient is summed in the order of its indices, so twice gives the same bits") {
  Bench bench;
  Random random(tenon::test::seed());
  Tensor indices(TN_DTYPE_i64, {3000}), dy(TN_DTYPE_f16, {3000, 700});
  for_each(indices.dims, [&](const Dims& at) { indices.set(at, static_cast<Number>(random() % 90)); });
  randomize(dy, random, false);
  const auto grad = [&] {
    return alone(
        bench, {&indices, &dy}, Tensor(TN_DTYPE_f16, {90, 700}),
        [](auto& f, auto& in, uint32_t out) { f.node(TN_OP_embedding_grad, in, {out}).integer("rows", 90); });
  };
  CHECK(grad().bytes == grad().bytes);
}

TEST_CASE("nothing: operands without elements give what is left to give") {
  Bench bench;
  const Tensor none(TN_DTYPE_f32, {0, 2}), indices(TN_DTYPE_i32, {0}), seed = word(1);
  const Tensor pair = numbers(TN_DTYPE_f32, {1, 2}, {5, 6}), first = numbers(TN_DTYPE_i32, {1}, {0});
  const auto border = [](auto& f, auto& in, uint32_t out) {
    f.node(TN_OP_pad, in, {out}).integers("before", {1, 0}).integers("after", {1, 1}).real("value", 7);
  };
  const auto joined = [](auto& f, auto& in, uint32_t out) {
    f.node(TN_OP_concat, in, {out}).integer("axis", 0);
  };
  const auto lookup = [](auto& f, auto& in, uint32_t out) { f.node(TN_OP_embedding, in, {out}); };
  const auto gradient = [](auto& f, auto& in, uint32_t out) {
    f.node(TN_OP_embedding_grad, in, {out}).integer("rows", 2);
  };
  const auto cut = [](auto& f, auto& in, uint32_t out) {
    f.node(TN_OP_slice, in, {out}).integers("begin", {1, 0}).integers("end", {1, 2}).integers("step", {9, 1});
  };
  const auto uniform = [](auto& f, auto& in, uint32_t out) {
    f.node(TN_OP_random_uniform, in, {out})
        .dtype("dtype", TN_DTYPE_f32)
        .integer("key", 0)
        .integers("shape", {0, 3});
  };
  CHECK(values_of(alone(bench, {&none}, Tensor(TN_DTYPE_f32, {2, 3}), border)) == std::vector<Number>(6, 7));
  CHECK(values_of(alone(bench, {&none, &pair, &none}, Tensor(TN_DTYPE_f32, {1, 2}), joined)) ==
        std::vector<Number>{5, 6});
  CHECK(values_of(alone(bench, {&first, &none}, Tensor(TN_DTYPE_f32, {1, 2}), lookup)) ==
        std::vector<Number>{0, 0});
  CHECK(values_of(alone(bench, {&indices, &none}, Tensor(TN_DTYPE_f32, {2, 2}), gradient)) ==
        std::vector<Number>(4, 0));
  CHECK(values_of(alone(bench, {&pair}, Tensor(TN_DTYPE_f32, {0, 2}), cut)).empty());
  CHECK(values_of(alone(bench, {&seed, &seed}, Tensor(TN_DTYPE_f32, {0, 3}), uniform)).empty());
}

TEST_CASE("output: a constant arrives in its binding's strides") {
  Bench bench;
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_u8, {2}), y = f.output(TN_DTYPE_u8, {2});
  const uint32_t c =
      f.constant(TN_DTYPE_u8, {2, 2}, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}});
  f.node(TN_OP_identity, {x}, {y});
  tn_fragment fragment = f.fragment();
  std::vector<tn_tensor> tensors(fragment.tensors, fragment.tensors + fragment.tensor_count);
  const int64_t columns[] = {1, 2};
  tensors[c].strides = columns;
  const uint32_t outputs[] = {y, c};
  fragment.tensors = tensors.data();
  fragment.outputs = outputs;
  fragment.output_count = 2;
  const Tensor in = numbers(TN_DTYPE_u8, {2}, {8, 9});
  Tensor out(TN_DTYPE_u8, {2}), turned(TN_DTYPE_u8, {2, 2}, {1, 2});
  bench.run(compile(bench.device, fragment), {&in}, {&out, &turned});
  CHECK(values_of(out) == std::vector<Number>{8, 9});
  CHECK(values_of(turned) == std::vector<Number>{1, 2, 3, 4});
}

TEST_CASE("lookup: short rows are the same, whether their numbers follow each other or not") {
  Bench bench;
  Random random(tenon::test::seed());
  const auto check = [&](uint32_t number, uint32_t dtype, int64_t width, bool gap) {
    CAPTURE(number);
    CAPTURE(dtype);
    CAPTURE(width);
    CAPTURE(gap);
    constexpr int64_t rows = 90, count = 3 * 32 + 5;
    Tensor indices(number, {4, count}), table(dtype, {rows, width});
    randomize(table, random, false);
    for (int64_t i = 0; i < count; ++i) {
      indices.set({0, i}, static_cast<Number>(i % 40));               // one behind the other, in stretches
      indices.set({1, i}, static_cast<Number>(i));                    // past the table's end
      indices.set({2, i}, static_cast<Number>(rows - 1 - i % rows));  // backwards
      indices.set({3, i}, static_cast<Number>(random() % (2 * rows)));
    }
    if (gap) indices.set({0, 7}, static_cast<Number>(0xFFFFFFFFu));
    const Tensor got = alone(bench, {&indices, &table}, Tensor(dtype, {4, count, width}),
                             [](auto& f, auto& in, uint32_t out) { f.node(TN_OP_embedding, in, {out}); });
    for_each({4, count}, [&](const Dims& at) {
      const auto row = static_cast<int64_t>(indices.at(at));
      for (int64_t k = 0; k < width; ++k) {
        const Number wanted = row >= 0 && row < rows ? table.at({row, k}) : Number(0);
        REQUIRE(got.at({at[0], at[1], k}) == wanted);
      }
    });
  };
  for (const uint32_t number : {TN_DTYPE_i32, TN_DTYPE_u32, TN_DTYPE_i64}) {
    for (const int64_t width : {1, 2, 3, 4, 5}) {
      check(number, TN_DTYPE_f32, width, number != TN_DTYPE_i32);
      check(number, TN_DTYPE_bf16, width, false);
      check(number, TN_DTYPE_f64, width, false);
    }
  }
}
