// SPDX-License-Identifier: Apache-2.0
// matmul_test.cpp: matrix products of every float type, transposed, batched, broadcast, strided and empty.
//
// Invariant: the error is held against depth units of Σ|a·b|, the bound that a sum of any order has.
#include "strategies.hpp"
#include "tiles.hpp"

#include <algorithm>
#include <span>

using namespace cpu_test;

namespace {

struct Case {
  Dims a, b, c;
  bool turn_a = false, turn_b = false;
  Dims a_strides{}, b_strides{}, c_strides{};
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{17, 33}, {33, 9}, {17, 9}},
      {{1, 1}, {1, 1}, {1, 1}},
      {{1, 64}, {64, 5}, {1, 5}},
      {{5, 64}, {64, 1}, {5, 1}},
      {{7, 1}, {1, 6}, {7, 6}},
      {{33, 17}, {33, 9}, {17, 9}, true, false},
      {{17, 33}, {9, 33}, {17, 9}, false, true},
      {{33, 17}, {9, 33}, {17, 9}, true, true},
      {{4, 17, 33}, {4, 33, 9}, {4, 17, 9}},
      {{4, 17, 33}, {33, 9}, {4, 17, 9}},
      {{17, 33}, {4, 33, 9}, {4, 17, 9}},
      {{2, 1, 5, 8}, {3, 8, 4}, {2, 3, 5, 4}},
      {{2, 3, 5, 8}, {1, 3, 4, 8}, {2, 3, 5, 4}, false, true},
      {{2, 3, 5, 8}, {2, 3, 5, 4}, {2, 3, 8, 4}, true, false},
      {{6, 10}, {10, 4}, {6, 4}, false, false, {1, 6}, {1, 10}, {}},
      {{6, 10}, {10, 4}, {6, 4}, false, false, {20, 2}, {9, 2}, {1, 6}},
      {{6, 10}, {10, 4}, {6, 4}, false, false, {12, 1}, {5, 1}, {7, 1}},
      {{3, 6, 10}, {10, 4}, {3, 6, 4}, false, false, {0, 10, 1}, {}, {}},
      {{6, 10}, {10, 4}, {6, 4}, false, false, {0, 1}, {1, 0}, {}},
      {{1, 2}, {2, 1}, {1, 1}, false, false, {4, 2}, {}, {}},  // single rows and columns with gaps
      {{1, 9}, {9, 4}, {1, 4}, false, false, {40, 3}, {}, {}},
      {{6, 9}, {9, 1}, {6, 1}, false, false, {}, {3, 1}, {5, 1}},
      {{2, 1, 9}, {9, 1}, {2, 1, 1}, false, false, {40, 40, 3}, {2, 2}, {}},
      {{3, 0}, {0, 4}, {3, 4}},
      {{0, 5}, {5, 4}, {0, 4}},
      {{2, 3, 5}, {2, 5, 0}, {2, 3, 0}},
      {{130, 200}, {200, 70}, {130, 70}},
  };
  return all;
}

// The engine's name.
std::string check_case(Bench& bench, uint32_t dtype, const Case& c, Random& random) {
  FragmentBuilder f(label(TN_OP_matmul, dtype, c.a));
  const uint32_t ia = f.input(dtype, c.a, c.a_strides), ib = f.input(dtype, c.b, c.b_strides);
  const uint32_t ic = f.output(dtype, c.c, c.c_strides);
  f.node(TN_OP_matmul, {ia, ib}, {ic}).integer("transpose_a", c.turn_a).integer("transpose_b", c.turn_b);
  Tensor a(dtype, c.a, c.a_strides), b(dtype, c.b, c.b_strides), y(dtype, c.c, c.c_strides);
  CAPTURE(label(TN_OP_matmul, dtype, c.a));
  CAPTURE(label(TN_OP_matmul, dtype, c.b));
  randomize(a, random, false);
  randomize(b, random, false);
  REQUIRE(supports(bench.device, f.fragment()).verdict != TN_SUPPORT_NO);
  const Kernel kernel = compile(bench.device, f.fragment());
  bench.run(kernel, {&a, &b}, {&y});
  const int64_t depth = c.a[c.a.size() - (c.turn_a ? 2 : 1)];
  Dims i, j;
  for_each(c.c, [&](const Dims& at) {
    Number sum = 0, size = 0;
    for (int64_t k = 0; k < depth; ++k) {
      i = at, j = at;
      i[at.size() - 1] = k;
      j[at.size() - 2] = k;
      if (c.turn_a) std::swap(i[at.size() - 1], i[at.size() - 2]);
      if (c.turn_b) std::swap(j[at.size() - 1], j[at.size() - 2]);
      const Number product = a.at(std::span<const int64_t>(i).last(std::min(c.a.size(), at.size()))) *
                             b.at(std::span<const int64_t>(j).last(std::min(c.b.size(), at.size())));
      sum += product;
      size += std::fabs(product);
    }
    const Number slack = size * static_cast<Number>(depth) * (dtype == TN_DTYPE_f64 ? 0x1p-53L : 0x1p-24L);
    if (!close(y.at(at), sum, dtype, 0.5001L, slack)) {
      FAIL_CHECK(label(TN_OP_matmul, dtype, c.a)
                 << " gives " << double(y.at(at)) << ", expected " << double(sum));
    }
  });
  return info(kernel).engine;
}

void check_all(uint32_t dtype) {
  Bench bench;
  Random random(tenon::test::seed());
  for (const Case& c : cases()) check_case(bench, dtype, c, random);
}

}  // namespace

TEST_CASE("matmul: f64, by loops of our own") { check_all(TN_DTYPE_f64); }

TEST_CASE("matmul: f32, bf16 and f16") {
  {
    Bench bench;
    if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  }
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16}) check_all(dtype);
}

TEST_CASE("matmul: bf16 on tile registers takes what oneDNN takes") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  options()["prefer"] = "amx";
  check_all(TN_DTYPE_bf16);
  options().clear();
}

TEST_CASE("matmul: f32 in strips takes what oneDNN takes, and f16 goes there through f32") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  options()["prefer"] = "strips";
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_f16}) {
    Bench bench;
    Random random(tenon::test::seed());
    for (const Case& c : cases()) {
      const std::string engine = check_case(bench, dtype, c, random);
      const bool some = std::ranges::count(c.a, 0) + std::ranges::count(c.b, 0) == 0;
      if (some) CHECK_MESSAGE(engine.find("matmul:strips") != engine.npos, engine);
    }
  }
  options().clear();
}

TEST_CASE("matmul: one kernel on several streams at once") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(tenon::test::seed());
  FragmentBuilder f;
  add_plain_product(f, TN_DTYPE_f32, 64, 64, 64);
  const Dims dims = {64, 64};
  const Kernel kernel = compile(bench.device, f.fragment());
  Tensor x(TN_DTYPE_f32, dims), y(TN_DTYPE_f32, dims);
  randomize(x, random, false);
  randomize(y, random, false);
  const uint64_t bytes = x.bytes.size();
  const Memory in = allocate(bench.device, 2 * bytes);
  std::memcpy(address(in), x.bytes.data(), bytes);
  std::memcpy(address(in) + bytes, y.bytes.data(), bytes);
  const tn_kernel_info stated = info(kernel);
  std::vector<Stream> streams;
  std::vector<Memory> outs, rooms;
  for (int i = 0; i < 12; ++i) {
    streams.push_back(make_stream(bench.device));
    outs.push_back(allocate(bench.device, bytes));
    rooms.push_back(allocate(bench.device, stated.workspace_bytes));
  }
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < streams.size(); ++i) {
      const tn_span bindings[] = {span(in, 0, bytes), span(in, bytes, bytes), span(outs[i], 0, bytes)};
      const tn_span room = span(rooms[i], 0, stated.workspace_bytes);
      launch(kernel, streams[i], bindings, &room);
    }
  }
  for (const Stream& stream : streams) drain(stream);
  for (const Memory& out : outs) CHECK(std::memcmp(address(out), address(outs[0]), bytes) == 0);
}

TEST_CASE("matmul: mismatched depths are the fragment's mistake, in words") {
  Bench bench;
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f64, {2, 3}), b = f.input(TN_DTYPE_f64, {4, 2}),
                 c = f.output(TN_DTYPE_f64, {2, 2});
  f.node(TN_OP_matmul, {a, b}, {c}).integer("transpose_a", 0).integer("transpose_b", 0);
  tn_support support{};
  support.size = sizeof support;
  const Outcome asked = outcome_of(
      [&](tn_error* e) { return plugin().kernel->supports(bench.device, &f.fragment(), &support, e); });
  CHECK(asked.code == TN_INVALID);
  CHECK(asked.says("3 columns meet 4 rows"));
}
