// SPDX-License-Identifier: Apache-2.0
// scaling_test.cpp: loss scaling: what is found, what is divided, and how the scale moves.
//
// Invariant: quotients are compared with ones of more precision, rounded here.
#include "tensors.hpp"

using namespace cpu_test;

namespace {

const std::vector<uint32_t> floats = {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64};

struct State {
  Number scale, good, bad;
};

struct Policy {
  int64_t decrease_after = 2, increase_after = 3;
  double decrease = 0.5, increase = 2;
};

FragmentBuilder::Node& with(FragmentBuilder::Node& node, const Policy& policy) {
  return node.integer("decr_every_n_nan_or_inf", policy.decrease_after)
      .integer("incr_every_n_steps", policy.increase_after)
      .real("decr_ratio", policy.decrease)
      .real("incr_ratio", policy.increase);
}

State stepped(Bench& bench, const Policy& policy, const State& state, bool found) {
  FragmentBuilder f("scale");
  std::vector<uint32_t> in, out;
  for (int i = 0; i < 4; ++i) in.push_back(f.input(TN_DTYPE_f32, {}));
  for (int i = 0; i < 3; ++i) out.push_back(f.output(TN_DTYPE_f32, {}));
  with(f.node(TN_OP_update_loss_scaling, in, out), policy);
  std::vector<Tensor> from(4, Tensor(TN_DTYPE_f32, {})), to(3, Tensor(TN_DTYPE_f32, {}));
  from[0].set({}, found ? 1 : 0);
  from[1].set({}, state.scale);
  from[2].set({}, state.good);
  from[3].set({}, state.bad);
  bench.run(compile(bench.device, f.fragment()), {&from[0], &from[1], &from[2], &from[3]},
            {&to[0], &to[1], &to[2]});
  return {to[0].at({}), to[1].at({}), to[2].at({})};
}

void check_state(const State& got, const State& expected) {
  CHECK(got.scale == expected.scale);
  CHECK(got.good == expected.good);
  CHECK(got.bad == expected.bad);
}

// Runs check_finite_and_unscale on one gradient. Whether it was found bad; `out` holds the quotients.
bool unscaled(Bench& bench, const Tensor& gradient, Number scale, Tensor& out) {
  FragmentBuilder f("unscale");
  const uint32_t s = f.input(TN_DTYPE_f32, {}), g = f.input(gradient.dtype, gradient.dims, gradient.strides);
  const uint32_t found = f.output(TN_DTYPE_f32, {}), u = f.output(out.dtype, out.dims, out.strides);
  f.node(TN_OP_check_finite_and_unscale, {s, g}, {found, u});
  Tensor by(TN_DTYPE_f32, {}), flag(TN_DTYPE_f32, {});
  by.set({}, scale);
  bench.run(compile(bench.device, f.fragment()), {&by, &gradient}, {&flag, &out});
  CHECK((flag.at({}) == 0 || flag.at({}) == 1));
  return flag.at({}) == 1;
}

}  // namespace

TEST_CASE("scaling: bad steps shrink the scale, good ones let it grow, each forgets the other") {
  Bench bench;
  const Policy policy;
  State state{1024, 0, 0};
  const auto step = [&](bool found, const State& expected) {
    state = stepped(bench, policy, state, found);
    check_state(state, expected);
  };
  step(false, {1024, 1, 0});
  step(false, {1024, 2, 0});
  step(true, {1024, 0, 1});
  step(false, {1024, 1, 0});
  step(true, {1024, 0, 1});
  step(true, {512, 0, 0});
  step(true, {512, 0, 1});
  step(true, {256, 0, 0});
  step(false, {256, 1, 0});
  step(false, {256, 2, 0});
  step(false, {512, 0, 0});
}

TEST_CASE("scaling: a scale that would become infinite stays, one that would fall below 1 is 1") {
  Bench bench;
  check_state(stepped(bench, Policy{}, {1.5L, 0, 1}, true), {1, 0, 0});
  check_state(stepped(bench, Policy{}, {0x1p127L, 2, 0}, false), {0x1p127L, 0, 0});
}

TEST_CASE("scaling: one value that is not finite is found wherever it stands, in every type") {
  const auto rounds = tenon::test::full_numbers_or<int>("places for each type and value", 6, 60);
  Random random(tenon::test::seed());
  Bench bench;
  const Number inf = std::numeric_limits<Number>::infinity(), nan = std::numeric_limits<Number>::quiet_NaN();
  for (const uint32_t dtype : floats) {
    Tensor gradient(dtype, {150'001}), out(dtype, {150'001});
    randomize(gradient, random, false);
    CHECK(!unscaled(bench, gradient, 4, out));
    for (const Number bad : {inf, -inf, nan}) {
      for (int i = 0; i < rounds; ++i) {
        const int64_t at = i == 0 ? 0 : i == 1 ? 150'000 : static_cast<int64_t>(random() % 150'001);
        const Number before = gradient.at({at});
        gradient.set({at}, bad);
        CHECK(unscaled(bench, gradient, 4, out));
        gradient.set({at}, before);
      }
    }
  }
}

TEST_CASE("scaling: the largest finite value of each type is finite") {
  Bench bench;
  for (const uint32_t dtype : floats) {
    const FloatForm form = form_of(dtype);
    Tensor gradient(dtype, {40}), out(dtype, {40});
    for (int64_t i = 0; i < 40; ++i)
      gradient.set({i}, std::ldexp(Number(2) - std::ldexp(Number(1), 1 - form.bits), form.most));
    CHECK(!unscaled(bench, gradient, 2, out));
  }
}

TEST_CASE("scaling: quotients are rounded once, by powers of two and by other scales, dense and strided") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : floats) {
    for (const Number scale : {65536.0L, 3.0L, rounded(0.1L, TN_DTYPE_f32), 0x1p-140L, -8.0L}) {
      for (const Dims& strides : {Dims{}, Dims{1, 37}}) {
        Tensor gradient(dtype, {37, 50}, strides), out(dtype, {37, 50});
        randomize(gradient, random, false);
        unscaled(bench, gradient, scale, out);
        for_each(gradient.dims, [&](const Dims& at) {
          // Halves are divided in f32 first.
          const Number exact = gradient.at(at) / scale;
          CHECK(same(out.at(at), rounded(is_half(dtype) ? rounded(exact, TN_DTYPE_f32) : exact, dtype)));
        });
      }
    }
  }
}

TEST_CASE("scaling: a scale that moves in place is the old one for the gradients of its step") {
  Bench bench;
  FragmentBuilder f("step");
  const uint32_t scale = f.input(TN_DTYPE_f32, {}), good = f.input(TN_DTYPE_f32, {}),
                 bad = f.input(TN_DTYPE_f32, {}), w = f.input(TN_DTYPE_f32, {3}),
                 g = f.input(TN_DTYPE_f32, {3}), lr = f.input(TN_DTYPE_f32, {});
  const uint32_t found = f.tensor(TN_DTYPE_f32, {}), unscaled = f.tensor(TN_DTYPE_f32, {3});
  const uint32_t next_scale = f.output(TN_DTYPE_f32, {}), next_good = f.output(TN_DTYPE_f32, {}),
                 next_bad = f.output(TN_DTYPE_f32, {}), next = f.output(TN_DTYPE_f32, {3});
  f.node(TN_OP_check_finite_and_unscale, {scale, g}, {found, unscaled});
  with(f.node(TN_OP_update_loss_scaling, {found, scale, good, bad}, {next_scale, next_good, next_bad}),
       {.increase_after = 1});
  f.node(TN_OP_sgd, {w, unscaled, lr, TN_ABSENT, found}, {next}).real("weight_decay", 0);
  for (uint32_t i = 0; i < 4; ++i) f.alias(i, i);
  CHECK(supports(bench.device, f.fragment()).alias_mask == 15);
  const Kernel kernel = compile(bench.device, f.fragment());
  CHECK(std::string(info(kernel).engine) == "update");
  const float numbers[] = {64, 0, 0, 10, 20, 30, 64, 128, 192, 1};  // in the order of the inputs
  const Memory memory = allocate(bench.device, sizeof numbers);
  copy(bench.stream, span(memory, 0, sizeof numbers), host_span(numbers, sizeof numbers));
  const tn_span in[] = {span(memory, 0, 4),   span(memory, 4, 4),   span(memory, 8, 4),
                        span(memory, 12, 12), span(memory, 24, 12), span(memory, 36, 4)};
  const std::vector<tn_span> bindings = {in[0], in[1], in[2], in[3], in[4],
                                         in[5], in[0], in[1], in[2], in[3]};
  const uint64_t bytes = info(kernel).workspace_bytes;
  const Memory workspace = allocate(bench.device, bytes);
  const tn_span room = span(workspace, 0, bytes);
  launch(kernel, bench.stream, bindings, &room);
  drain(bench.stream);
  const auto* after = reinterpret_cast<const float*>(address(memory));
  CHECK(after[0] == 128);
  CHECK(after[1] == 0);
  CHECK(after[3] == 9);
  CHECK(after[4] == 18);
  CHECK(after[5] == 27);
}
