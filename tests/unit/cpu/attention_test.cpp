// SPDX-License-Identifier: Apache-2.0
// attention_test.cpp: attention and its gradient against their definitions, where blocks meet and where nothing is seen.
//
// Invariant: the reference computes one query against every key in long double, from the numbers the plugin was given.
#include "strategies.hpp"

using namespace cpu_test;

namespace {

struct Problem {
  uint32_t dtype;
  int64_t batch, heads, queries, keys, width;
  bool causal = false;
  Number scale = 0.25L;
  Dims mask = {};  // its dims, or none

  Dims query() const { return {batch, heads, queries, width}; }
  Dims key() const { return {batch, heads, keys, width}; }
  Dims rows() const { return {batch, heads, queries}; }
};

struct Operands {
  Tensor q, k, v, mask;
};

Operands random_operands(const Problem& p, Random& random) {
  Operands out{{p.dtype, p.query()}, {p.dtype, p.key()}, {p.dtype, p.key()}, {p.dtype, p.mask}};
  const auto tame = [&](Tensor& tensor) {
    for_each(tensor.dims, [&](const Dims& at) {
      tensor.set(at, rounded(static_cast<Number>(random() % 4001) / 2000 - 1, p.dtype));
    });
  };
  for (Tensor* tensor : {&out.q, &out.k, &out.v}) tame(*tensor);
  if (!p.mask.empty()) tame(out.mask);
  return out;
}

// The shares of one query, and their logarithm.
Number shares_of(const Problem& p, const Operands& o, int64_t b, int64_t h, int64_t i,
                 std::vector<Number>& share) {
  const Number inf = std::numeric_limits<Number>::infinity();
  Number largest = -inf, sum = 0;
  share.assign(static_cast<size_t>(p.keys), -inf);
  for (int64_t j = 0; j < p.keys; ++j) {
    if (p.causal && j + p.queries > i + p.keys) continue;
    Number score = 0;
    for (int64_t d = 0; d < p.width; ++d) score += o.q.at({b, h, i, d}) * o.k.at({b, h, j, d});
    score = score * p.scale + (p.mask.empty() ? 0 : o.mask.at({b, h, i, j}));
    share[static_cast<size_t>(j)] = score;
    largest = std::max(largest, score);
  }
  if (largest == -inf) {
    share.assign(share.size(), 0);
    return -inf;
  }
  for (Number& one : share) sum += one = std::exp(one - largest);
  for (Number& one : share) one /= sum;
  return largest + std::log(sum);
}

// What a type may be off by, of a sum of terms of size 1.
Number allowed(const Problem& p) {
  if (p.dtype == TN_DTYPE_f64) return 1e-13L;
  return p.dtype == TN_DTYPE_f32 ? 1e-5L : p.dtype == TN_DTYPE_f16 ? 4e-3L : 3e-2L;
}

struct Forward {
  Tensor y, log;
  uint64_t workspace = 0;
  std::string engine{};
};

Forward run_forward(Bench& bench, const Problem& p, const Operands& o) {
  FragmentBuilder f("attention");
  std::vector<uint32_t> in = {f.input(p.dtype, p.query()), f.input(p.dtype, p.key()),
                              f.input(p.dtype, p.key())};
  std::vector<const Tensor*> tensors = {&o.q, &o.k, &o.v};
  if (!p.mask.empty()) {
    in.push_back(f.input(p.dtype, p.mask));
    tensors.push_back(&o.mask);
  }
  const uint32_t y = f.output(p.dtype, p.query()), log = f.output(TN_DTYPE_f32, p.rows());
  f.node(TN_OP_attention, in, {y, log})
      .integer("causal", p.causal ? 1 : 0)
      .real("scale", static_cast<double>(p.scale));
  Forward out{{p.dtype, p.query()}, {TN_DTYPE_f32, p.rows()}};
  const Kernel kernel = compile(bench.device, f.fragment());
  out.workspace = info(kernel).workspace_bytes;
  out.engine = info(kernel).engine;
  bench.run(kernel, tensors, {&out.y, &out.log});
  return out;
}

void check_row(const Problem& p, const Operands& o, const Forward& got, int64_t b, int64_t h, int64_t i) {
  std::vector<Number> share;
  const Number log = shares_of(p, o, b, h, i, share);
  const Number got_log = got.log.at({b, h, i});
  CHECK((got_log == log || std::fabs(got_log - log) <= 1e-4L));
  for (int64_t d = 0; d < p.width; ++d) {
    Number y = 0;
    for (int64_t j = 0; j < p.keys; ++j) y += share[static_cast<size_t>(j)] * o.v.at({b, h, j, d});
    CHECK(std::fabs(got.y.at({b, h, i, d}) - y) <= allowed(p));
  }
}

void check_all_rows(const Problem& p, const Operands& o, const Forward& got) {
  for_each(p.rows(), [&](const Dims& at) { check_row(p, o, got, at[0], at[1], at[2]); });
}

struct Gradients {
  Tensor dq, dk, dv;
};

Gradients run_backward(Bench& bench, const Problem& p, const Operands& o, const Forward& forward,
                       const Tensor& dy) {
  FragmentBuilder f("attention_grad");
  const uint32_t d = f.input(p.dtype, p.query()), q = f.input(p.dtype, p.query()),
                 k = f.input(p.dtype, p.key()), v = f.input(p.dtype, p.key()),
                 y = f.input(p.dtype, p.query()), log = f.input(TN_DTYPE_f32, p.rows());
  std::vector<uint32_t> in = {d, q, k, v, y, log};
  std::vector<const Tensor*> tensors = {&dy, &o.q, &o.k, &o.v, &forward.y, &forward.log};
  if (!p.mask.empty()) {
    in.push_back(f.input(p.dtype, p.mask));
    tensors.push_back(&o.mask);
  }
  const uint32_t dq = f.output(p.dtype, p.query()), dk = f.output(p.dtype, p.key()),
                 dv = f.output(p.dtype, p.key());
  f.node(TN_OP_attention_grad, in, {dq, dk, dv})
      .integer("causal", p.causal ? 1 : 0)
      .real("scale", static_cast<double>(p.scale));
  Gradients out{{p.dtype, p.query()}, {p.dtype, p.key()}, {p.dtype, p.key()}};
  bench.run(compile(bench.device, f.fragment()), tensors, {&out.dq, &out.dk, &out.dv});
  return out;
}

void check_gradients(const Problem& p, const Operands& o, const Tensor& dy, const Gradients& got) {
  std::vector<Number> share, dq, dk(static_cast<size_t>(p.keys * p.width)), dv(dk.size());
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      std::fill(dk.begin(), dk.end(), 0);
      std::fill(dv.begin(), dv.end(), 0);
      for (int64_t i = 0; i < p.queries; ++i) {
        shares_of(p, o, b, h, i, share);
        dq.assign(static_cast<size_t>(p.width), 0);
        std::vector<Number> slope(share.size());
        Number inner = 0;
        for (size_t j = 0; j < slope.size(); ++j) {
          for (int64_t d = 0; d < p.width; ++d)
            slope[j] += dy.at({b, h, i, d}) * o.v.at({b, h, static_cast<int64_t>(j), d});
          inner += share[j] * slope[j];
        }
        for (size_t j = 0; j < slope.size(); ++j) {
          const auto key = static_cast<int64_t>(j);
          const Number ds = share[j] * (slope[j] - inner) * p.scale;
          for (int64_t d = 0; d < p.width; ++d) {
            const size_t at = j * static_cast<size_t>(p.width) + static_cast<size_t>(d);
            dq[static_cast<size_t>(d)] += ds * o.k.at({b, h, key, d});
            dk[at] += ds * o.q.at({b, h, i, d});
            dv[at] += share[j] * dy.at({b, h, i, d});
          }
        }
        for (int64_t d = 0; d < p.width; ++d)
          CHECK(std::fabs(got.dq.at({b, h, i, d}) - dq[static_cast<size_t>(d)]) <= 4 * allowed(p));
      }
      for (int64_t j = 0; j < p.keys; ++j) {
        for (int64_t d = 0; d < p.width; ++d) {
          const auto at = static_cast<size_t>(j * p.width + d);
          CHECK(std::fabs(got.dk.at({b, h, j, d}) - dk[at]) <= 4 * allowed(p));
          CHECK(std::fabs(got.dv.at({b, h, j, d}) - dv[at]) <= 4 * allowed(p) * (1 + std::fabs(dv[at])));
        }
      }
    }
  }
}

Tensor slopes(const Problem& p, Random& random) {
  Tensor dy(p.dtype, p.query());
  for_each(dy.dims, [&](const Dims& at) {
    dy.set(at, rounded(static_cast<Number>(random() % 2001) / 1000 - 1, p.dtype));
  });
  return dy;
}

void check_both(Bench& bench, const Problem& p, Random& random) {
  const Operands o = random_operands(p, random);
  const Forward forward = run_forward(bench, p, o);
  check_all_rows(p, o, forward);
  const Tensor dy = slopes(p, random);
  check_gradients(p, o, dy, run_backward(bench, p, o, forward, dy));
}

const std::vector<uint32_t> floats = {TN_DTYPE_f32, TN_DTYPE_f64, TN_DTYPE_bf16, TN_DTYPE_f16};

}  // namespace

TEST_CASE("attention: counts around the blocks' sizes, both ways, in every type") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : floats) {
    check_both(bench, {dtype, 1, 2, 31, 65, 16}, random);
    check_both(bench, {dtype, 2, 1, 33, 257, 17}, random);
    check_both(bench, {dtype, 1, 1, 64, 64, 64, true}, random);
    check_both(bench, {dtype, 1, 1, 1, 130, 40, true}, random);
    check_both(bench, {dtype, 1, 3, 70, 1, 33}, random);
  }
}

TEST_CASE("attention: bf16 on every instruction set, which may multiply tiles, pairs or neither") {
  for (const Strategy& strategy : strategies()) {
    if (strategy.engine != "interpreter") continue;  // attention has but one way on each
    CAPTURE(strategy.isa);
    Random random(tenon::test::seed());
    Bench bench = bench_of(strategy);
    check_both(bench, {TN_DTYPE_bf16, 1, 2, 31, 65, 16}, random);
    check_both(bench, {TN_DTYPE_bf16, 2, 1, 33, 257, 17, true}, random);
  }
}

TEST_CASE("attention: a mask repeated by broadcast is the mask written out") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16}) {
    for (const Dims& mask :
         {Dims{2, 1, 1, 40}, Dims{1, 1, 33, 40}, Dims{33, 1}, Dims{40}, Dims{2, 2, 33, 40}}) {
      Problem p{dtype, 2, 2, 33, 40, 8};
      p.mask = mask;
      check_both(bench, p, random);
    }
  }
}

// Three heads of six blocks in bf16, cut between slots or not, each slot's own or shared by several; one query of many keys is packed
// by all.
TEST_CASE("attention: any number of threads gives the same bits, and takes no more memory than a head each") {
  Random random(tenon::test::seed());
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16}) {
    for (const Problem& p : {Problem{dtype, 1, 3, 161, 190, 64}, Problem{dtype, 1, 3, 161, 190, 64, true},
                             Problem{dtype, 1, 1, 3, 6'000, 64, true, 0.125L}}) {
      const Operands o = random_operands(p, random);
      Forward first;
      for (const char* threads : {"1", "2", "3", "5", "16"}) {
        CAPTURE(threads);
        options()["threads"] = threads;
        Bench bench;
        options().clear();
        Forward got = run_forward(bench, p, o);
        const auto heads = static_cast<uint64_t>(std::min<int64_t>(std::stoll(threads), p.heads));
        const uint64_t tiles = 2 * heads * static_cast<uint64_t>(p.keys + 32) * 64 * 2;
        // Where nothing multiplies bf16, all four operands are copied to f32 and back.
        const bool widens = dtype == TN_DTYPE_bf16 && got.engine.find("attention:") == std::string::npos;
        const auto rows = static_cast<uint64_t>(2 * p.heads * (p.queries + p.keys));
        const uint64_t copies = widens ? rows * 64 * 4 : 0;
        CHECK(got.workspace <= tiles + copies + std::stoull(threads) * (128 << 10));
        if (first.y.bytes.empty()) {
          check_all_rows(p, o, got);
          first = std::move(got);
          continue;
        }
        CHECK(got.y.bytes == first.y.bytes);
        CHECK(got.log.bytes == first.log.bytes);
      }
    }
  }
}

TEST_CASE("attention: thousands of keys, and memory that does not grow with their square") {
  const auto rows = tenon::test::full_numbers_or<int>("rows looked at for each type", 12, 400);
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16}) {
    const Problem p{dtype, 1, 1, 3'000, 3'000, 64, true, 0.125L};
    const Operands o = random_operands(p, random);
    const Forward got = run_forward(bench, p, o);
    CHECK(got.workspace < uint64_t{3'000} * 3'000);
    for (int i = 0; i < rows; ++i) check_row(p, o, got, 0, 0, static_cast<int64_t>(random() % 3'000));
  }
}

TEST_CASE("attention: queries that see no key give 0, and push nothing back") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : floats) {
    // The last query sees the last key, so with fewer keys the first queries see none.
    const Problem p{dtype, 1, 2, 50, 9, 24, true};
    const Operands o = random_operands(p, random);
    const Forward forward = run_forward(bench, p, o);
    check_all_rows(p, o, forward);
    const Tensor dy = slopes(p, random);
    const Gradients got = run_backward(bench, p, o, forward, dy);
    check_gradients(p, o, dy, got);
    for (int64_t i = 0; i < 41; ++i) {
      CHECK(forward.log.at({0, 1, i}) == -std::numeric_limits<Number>::infinity());
      for (int64_t d = 0; d < 24; ++d) {
        CHECK(forward.y.at({0, 1, i, d}) == 0);
        CHECK(got.dq.at({0, 1, i, d}) == 0);
      }
    }
  }
}

TEST_CASE("attention: a row masked by -∞ is 0, its neighbours are not touched") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : floats) {
    Problem p{dtype, 1, 1, 37, 300, 16};
    p.mask = {37, 300};
    Operands o = random_operands(p, random);
    for (int64_t j = 0; j < 300; ++j) o.mask.set({5, j}, -std::numeric_limits<Number>::infinity());
    for (int64_t j = 0; j < 299; ++j) o.mask.set({6, j}, -std::numeric_limits<Number>::infinity());
    const Forward forward = run_forward(bench, p, o);
    check_all_rows(p, o, forward);
    const Tensor dy = slopes(p, random);
    const Gradients got = run_backward(bench, p, o, forward, dy);
    check_gradients(p, o, dy, got);
    for (int64_t d = 0; d < 16; ++d) {
      CHECK(forward.y.at({0, 0, 5, d}) == 0);
      CHECK(got.dq.at({0, 0, 5, d}) == 0);
      CHECK(forward.y.at({0, 0, 6, d}) == o.v.at({0, 0, 299, d}));
    }
  }
}

TEST_CASE("attention: two runs give the same bits") {
  Random random(tenon::test::seed());
  Bench bench;
  const Problem p{TN_DTYPE_f32, 1, 1, 200, 700, 32};
  const Operands o = random_operands(p, random);
  const Forward first = run_forward(bench, p, o);
  const Tensor dy = slopes(p, random);
  const Gradients back = run_backward(bench, p, o, first, dy);
  for (int i = 0; i < 5; ++i) {
    CHECK(run_forward(bench, p, o).y.bytes == first.y.bytes);
    const Gradients again = run_backward(bench, p, o, first, dy);
    CHECK(again.dq.bytes == back.dq.bytes);
    CHECK(again.dk.bytes == back.dk.bytes);
  }
}
