// SPDX-License-Identifier: Apache-2.0
// engine_edges_test.cpp: where an engine begins and ends: lengths, registers, what it does not take, its options, its pages,
// and results that no cache holds.
//
// Invariant: every case runs in every way that this machine has, or says which it lacks.
#include "strategies.hpp"

#include <fstream>

using namespace cpu_test;

TEST_CASE("engines: every length from 0 to 200 of every direct dtype") {
  for (const Strategy& strategy : strategies()) {
    Random random(tenon::test::seed());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_f64, TN_DTYPE_f16, TN_DTYPE_bf16}) {
      for (int64_t n = 0; n <= 200; ++n) {
        FragmentBuilder f;
        const uint32_t a = f.input(dtype, {n}), b = f.input(dtype, {n});
        const uint32_t positive = f.output(TN_DTYPE_bool, {n}), greatest = f.output(dtype, {n});
        f.node(TN_OP_less, {a, b}, {positive});
        f.node(TN_OP_where, {positive, b, a}, {greatest});
        Tensor x(dtype, {n}), y(dtype, {n}), less(TN_DTYPE_bool, {n}), most(dtype, {n});
        randomize(x, random);
        randomize(y, random);
        bench.run(compile(bench.device, f.fragment()), {&x, &y}, {&less, &most});
        for_each(x.dims, [&](const Dims& at) {
          const bool expected = x.at(at) < y.at(at);
          if (less.at(at) != (expected ? 1 : 0) || !same(most.at(at), expected ? y.at(at) : x.at(at)))
            FAIL_CHECK(strategy.name() << ": element " << at[0] << " of " << n);
        });
      }
    }
  }
}

TEST_CASE("engines: more operands than pointers have registers, and more values than vectors have") {
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    constexpr int64_t n = 1000;
    for (const size_t operands : {20, 40}) {
      FragmentBuilder f;
      std::vector<Tensor> inputs;
      std::vector<const Tensor*> in;
      std::vector<uint32_t> index, doubled;
      for (size_t i = 0; i < operands; ++i) {
        Tensor& made = inputs.emplace_back(TN_DTYPE_f32, Dims{n});
        for_each(made.dims, [&](const Dims& at) {
          made.set(at, static_cast<Number>(at[0] % 7 + static_cast<int64_t>(i)));
        });
        index.push_back(f.input(TN_DTYPE_f32, {n}));
      }
      // All are doubled before any is added.
      for (const uint32_t value : index) {
        doubled.push_back(f.tensor(TN_DTYPE_f32, {n}));
        f.node(TN_OP_add, {value, value}, {doubled.back()});
      }
      uint32_t total = doubled[0];
      for (size_t i = 1; i < operands; ++i) {
        const uint32_t next = i + 1 == operands ? f.output(TN_DTYPE_f32, {n}) : f.tensor(TN_DTYPE_f32, {n});
        f.node(TN_OP_add, {total, doubled[i]}, {next});
        total = next;
      }
      for (const Tensor& tensor : inputs) in.push_back(&tensor);
      Tensor sum(TN_DTYPE_f32, {n});
      const Kernel kernel = compile(bench.device, f.fragment());
      bench.run(kernel, in, {&sum});
      const auto k = static_cast<int64_t>(operands);
      for_each(sum.dims, [&](const Dims& at) {
        if (sum.at(at) != static_cast<Number>(2 * k * (at[0] % 7) + k * (k - 1)))
          FAIL_CHECK(engine_of(kernel) << " with " << operands << " operands: element " << at[0]);
      });
    }
  }
}

TEST_CASE("engines: what code does not take is interpreted, and the engine's text says why") {
  if (engine_of_add({"jit", "avx2"}) != "jit:avx2") TENON_SKIP("jit", engine_of_add({"jit", "avx2"}));
  Bench bench = bench_of({"jit", "avx2"});
  const auto text_of = [&](uint32_t op, uint32_t dtype) {
    FragmentBuilder f;
    const uint32_t in = f.input(dtype, {8});
    f.node(op, {in}, {f.output(dtype, {8})});
    return engine_of(compile(bench.device, f.fragment()));
  };
  CHECK(text_of(TN_OP_sin, TN_DTYPE_f32) == "tiles:avx2 (no jit: sin of f32)");
  CHECK(text_of(TN_OP_log, TN_DTYPE_f64) == "tiles:avx2 (no jit: log of f64)");
  CHECK(text_of(TN_OP_neg, TN_DTYPE_i32) == "tiles:avx2 (no jit: integers)");
  CHECK(text_of(TN_OP_tanh, TN_DTYPE_bf16) == "jit:avx2");
}

TEST_CASE("engines: no page is writable and executable at once while code is there") {
  std::ifstream maps("/proc/self/maps");
  if (!maps) TENON_SKIP("proc", "this system has no /proc/self/maps");
  if (engine_of_add({"jit", "avx2"}) != "jit:avx2") TENON_SKIP("jit", engine_of_add({"jit", "avx2"}));
  const auto executable = [](bool writable) {
    std::ifstream lines("/proc/self/maps");
    size_t found = 0;
    for (std::string line; std::getline(lines, line);) {
      const std::string rights = line.substr(line.find(' ') + 1, 4);
      found += rights[2] == 'x' && (rights[1] == 'w') == writable ? 1 : 0;
    }
    return found;
  };
  Bench bench = bench_of({"jit", "avx2"});
  const size_t before = executable(false);
  std::vector<Kernel> kernels;
  for (int64_t n = 1; n < 9; ++n) {
    FragmentBuilder f;
    const uint32_t in = f.input(TN_DTYPE_f32, {n});
    f.node(TN_OP_exp, {in}, {f.output(TN_DTYPE_f32, {n})});
    kernels.push_back(compile(bench.device, f.fragment()));
  }
  CHECK(executable(false) > before);
  CHECK(executable(true) == 0);
}

TEST_CASE("engines: an unknown engine or instruction set is refused by name") {
  for (const char* key : {"engine", "isa"}) {
    options()[key] = "abacus";
    tn_device* device = nullptr;
    const cpu_test::Outcome opened =
        outcome_of([&](tn_error* e) { return plugin().device->open(&plugin(), 0, nullptr, &device, e); });
    options().clear();
    CHECK(opened.code == TN_INVALID);
    CHECK(opened.says(key));
    CHECK(opened.says("abacus"));
    CHECK(opened.says("one of"));
  }
}

TEST_CASE("engines: a result past the caches is whole, in place or not, aligned or not") {
  constexpr int64_t n = (16 << 20) / 4 + 77;
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    FragmentBuilder f;
    const uint32_t a = f.input(TN_DTYPE_f32, {n}), b = f.input(TN_DTYPE_f32, {});
    f.node(TN_OP_add, {a, b}, {f.output(TN_DTYPE_f32, {n})});
    f.alias(0, 0);
    const Kernel kernel = compile(bench.device, f.fragment());
    const Memory memory = allocate(bench.device, 2 * n * 4 + 256), one = allocate(bench.device, 4);
    const float addend = 1;
    copy(bench.stream, span(one, 0, 4), host_span(&addend, 4));
    auto* const numbers = reinterpret_cast<float*>(address(memory));
    for (const uint64_t out : {uint64_t{0}, uint64_t{n * 4 + 128 - n * 4 % 64}, uint64_t{n * 4 + 4}}) {
      for (int64_t i = 0; i < n; ++i) numbers[i] = static_cast<float>(i % 1000);
      const std::vector<tn_span> bindings = {span(memory, 0, n * 4), span(one, 0, 4),
                                             span(memory, out, n * 4)};
      launch(kernel, bench.stream, bindings);
      drain(bench.stream);
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; ++i)
        wrong += numbers[out / 4 + static_cast<uint64_t>(i)] != static_cast<float>(i % 1000 + 1);
      CHECK_MESSAGE(wrong == 0, strategy.name() << " at " << out);
    }
  }
}
