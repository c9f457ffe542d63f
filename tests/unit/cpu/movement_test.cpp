// SPDX-License-Identifier: Apache-2.0
// movement_test.cpp: ops that compute nothing: casts, constants, broadcasts and other orders of the same numbers.
//
// Invariant: every element of every dtype is compared, and a cast's is the value rounded or wrapped once.
#include "tensors.hpp"

using namespace cpu_test;

TEST_CASE("cast: from every dtype to every dtype") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t from : all_dtypes) {
    for (const uint32_t to : all_dtypes) {
      FragmentBuilder f;
      const uint32_t in = f.input(from, {777}), out = f.output(to, {777});
      f.node(TN_OP_cast, {in}, {out}).dtype("dtype", to);
      Tensor x(from, {777}), y(to, {777});
      randomize(x, random);
      bench.run(compile(bench.device, f.fragment()), {&x}, {&y});
      for_each(x.dims, [&](const Dims& at) {
        const bool wraps = !is_float(from) && !is_float(to) && to != TN_DTYPE_bool;
        const Number expected = wraps ? wrapped(integer_bits(x.at(at)), to) : rounded(x.at(at), to);
        if (!same(y.at(at), expected)) {
          FAIL_CHECK("cast " << std::string(tenon::author::dtype_name(from)) << " → "
                             << std::string(tenon::author::dtype_name(to)) << " of " << double(x.at(at))
                             << " gives " << double(y.at(at)) << ", expected " << double(expected));
        }
      });
    }
  }
}

TEST_CASE("cast: every half becomes f32 exactly, and comes back unchanged") {
  Bench bench;
  for (const uint32_t half : {TN_DTYPE_f16, TN_DTYPE_bf16}) {
    FragmentBuilder f;
    const uint32_t in = f.input(half, {65536}), wide = f.output(TN_DTYPE_f32, {65536}),
                   out = f.output(half, {65536});
    f.node(TN_OP_cast, {in}, {wide}).dtype("dtype", TN_DTYPE_f32);
    f.node(TN_OP_cast, {wide}, {out}).dtype("dtype", half);
    Tensor x(half, {65536}), w(TN_DTYPE_f32, {65536}), y(half, {65536});
    for (uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(x.bytes.data() + 2 * i, &bits, 2);
    }
    bench.run(compile(bench.device, f.fragment()), {&x}, {&w, &y});
    uint32_t wrong = 0;
    for_each(x.dims, [&](const Dims& at) {
      const Number exact = x.at(at);
      wrong += same(w.at(at), exact) && same(y.at(at), exact) &&
                       (std::isnan(exact) || std::signbit(w.at(at)) == std::signbit(exact))
                   ? 0
                   : 1;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("movement: constant and broadcast_to fill their shape") {
  Bench bench;
  for (const uint32_t dtype : all_dtypes) {
    FragmentBuilder f;
    const uint32_t in = f.input(dtype, {3, 1}), wide = f.output(dtype, {2, 3, 4}), one = f.output(dtype, {5});
    f.node(TN_OP_broadcast_to, {in}, {wide}).integers("shape", {2, 3, 4});
    f.node(TN_OP_constant, {}, {one}).dtype("dtype", dtype).integers("shape", {5}).real("value", 1.0);
    Tensor x(dtype, {3, 1}), y(dtype, {2, 3, 4}), z(dtype, {5});
    Random random(1);
    randomize(x, random);
    bench.run(compile(bench.device, f.fragment()), {&x}, {&y, &z});
    for_each(y.dims, [&](const Dims& at) { CHECK(same(y.at(at), x.at(at))); });
    for_each(z.dims, [&](const Dims& at) { CHECK(z.at(at) == 1); });
  }
}

TEST_CASE("movement: reshape and transpose keep every element") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : all_dtypes) {
    FragmentBuilder f;
    const Dims strides = {1, 3, 15};
    const uint32_t in = f.input(dtype, {3, 5, 4}, strides);
    const uint32_t flat = f.output(dtype, {6, 10}), turned = f.output(dtype, {4, 3, 5});
    f.node(TN_OP_reshape, {in}, {flat}).integers("shape", {6, 10});
    f.node(TN_OP_transpose, {in}, {turned}).integers("order", {2, 0, 1});
    Tensor x(dtype, {3, 5, 4}, strides), y(dtype, {6, 10}), z(dtype, {4, 3, 5});
    randomize(x, random);
    bench.run(compile(bench.device, f.fragment()), {&x}, {&y, &z});
    int64_t i = 0;
    for_each(x.dims, [&](const Dims& at) {
      CHECK(same(y.at({i / 10, i % 10}), x.at(at)));
      CHECK(same(z.at({at[2], at[0], at[1]}), x.at(at)));
      ++i;
    });
  }
}
