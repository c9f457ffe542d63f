// SPDX-License-Identifier: Apache-2.0
// updates_test.cpp: how many launches a fragment of updates becomes, what its source holds, and what it may write in place.
#include "written.hpp"

using namespace kernels_test;
using tenon::cuda::honoured_aliases;

namespace {

struct StepScalars {
  uint32_t rate, step, found_inf = TN_ABSENT;
  explicit StepScalars(FragmentBuilder& f)
      : rate(f.input(TN_DTYPE_f32, {})), step(f.input(TN_DTYPE_f32, {})) {}
};

// One parameter of f32.
void adam(FragmentBuilder& f, const StepScalars& step, uint32_t gradient, const std::vector<int64_t>& dims,
          double decay) {
  const uint32_t t = TN_DTYPE_f32, w = f.input(t, dims), m = f.input(t, dims), v = f.input(t, dims);
  f.node(TN_OP_adamw, {w, gradient, m, v, step.rate, step.step, TN_ABSENT, step.found_inf},
         {f.output(t, dims), f.output(t, dims), f.output(t, dims)})
      .real("beta1", 0.9)
      .real("beta2", 0.999)
      .real("epsilon", 1e-8)
      .real("weight_decay", decay);
}

// `count` parameters of several sizes, their gradients looked at and divided first, as a step of training has them.
void step_of(FragmentBuilder& f, int64_t count, uint32_t gradients = TN_DTYPE_f16) {
  StepScalars step(f);
  std::vector<uint32_t> scaled = {f.input(TN_DTYPE_f32, {})}, plain = {f.tensor(TN_DTYPE_f32, {})};
  for (int64_t i = 0; i < count; ++i) {
    scaled.push_back(f.input(gradients, {512 + i}));
    plain.push_back(f.tensor(gradients, {512 + i}));
  }
  f.node(TN_OP_check_finite_and_unscale, scaled, plain);
  step.found_inf = plain[0];
  for (int64_t i = 0; i < count; ++i)
    adam(f, step, plain[static_cast<size_t>(i + 1)], {512 + i}, i % 3 == 0 ? 0.01 : 0);
}

void sgd(FragmentBuilder& f, uint32_t w, uint32_t g, uint32_t rate, uint32_t to, double decay = 0) {
  f.node(TN_OP_sgd, {w, g, rate}, {to}).real("weight_decay", decay);
}

}  // namespace

TEST_CASE("updates: 161 parameters with their scan are three launches, and a table") {
  FragmentBuilder few, many;
  step_of(few, 161);
  step_of(many, 322);
  const Program one = written(few), two = written(many);
  REQUIRE(one.steps.size() == 3);  // the flag is cleared, gradients are looked at, parameters are updated
  CHECK(two.steps.size() == 3);
  CHECK(one.steps[0].any.blocks == 1);
  CHECK(one.steps[2].wide.name == "step1_wide");
  CHECK(one.steps[2].wide.blocks <= 4 * Target{}.multiprocessors);
  CHECK((two.source.size() - one.source.size()) / 161 < 300);  // text for each tensor: rows of tables
  CHECK(entry(one, "step1_wide").size() == entry(two, "step1_wide").size());
}

TEST_CASE("updates: of Adam in f32 a thread has one word of each operand on its way") {
  FragmentBuilder f;
  const StepScalars step(f);
  adam(f, step, f.input(TN_DTYPE_f32, {1 << 22}), {1 << 22}, 0);
  const std::string wide = entry(written(f), "step0_wide");
  for (const char* const operand : {"weight", "gradient", "state0", "state1"})
    CHECK(holds(wide, std::string("Lanes<f32, 4> ") + operand + "[1] = {};"));
}

TEST_CASE("updates: gradients that only updates read are divided on the way in, and never written") {
  FragmentBuilder f;
  step_of(f, 8);
  const Program program = written(f);
  CHECK(program.workspace_bytes == 256);  // the flag
  CHECK(!holds(entry(program, "step0_wide"), "store<"));
  CHECK(holds(entry(program, "step1_wide"), "divided(gradient[u].at[v], f.scale, f.inverse)"));
}

TEST_CASE("updates: a divided gradient that is an output too is written, and read as it was written") {
  FragmentBuilder f;
  const uint32_t scale = f.input(TN_DTYPE_f32, {}), g = f.input(TN_DTYPE_f32, {64}),
                 w = f.input(TN_DTYPE_f32, {64}), rate = f.input(TN_DTYPE_f32, {});
  const uint32_t found = f.output(TN_DTYPE_f32, {}), plain = f.output(TN_DTYPE_f32, {64});
  f.node(TN_OP_check_finite_and_unscale, {scale, g}, {found, plain});
  sgd(f, w, plain, rate, f.output(TN_DTYPE_f32, {64}));
  const Program program = written(f);
  CHECK(program.workspace_bytes == 0);
  CHECK(holds(entry(program, "step0_wide"), "store<4, 16>"));
  CHECK(!holds(entry(program, "step1_wide"), "divided("));
  CHECK(holds(entry(program, "step1_wide"), "gradient[u] = load<4, 16, false>"));
}

TEST_CASE(
    "updates: halves are moved 16 bytes at a time, what lies beside them in as many words as it takes") {
  FragmentBuilder f;
  step_of(f, 2);
  const std::string wide = entry(written(f), "step1_wide");
  CHECK(holds(wide, "gradient[u] = load<8, 16, true>(static_cast<const f16*>"));
  CHECK(holds(wide, "weight[u] = load<8, 16, true>(static_cast<const f32*>"));
  CHECK(holds(wide, "store<8, 16>(static_cast<f32*>"));
  CHECK(wide.find("store<") > wide.find("state1[u] = load<"));
}

TEST_CASE("updates: what an output may take the place of is read like any memory") {
  FragmentBuilder f;
  const uint32_t w = f.input(TN_DTYPE_f32, {64}), g = f.input(TN_DTYPE_f32, {64}),
                 rate = f.input(TN_DTYPE_f32, {});
  sgd(f, w, g, rate, f.output(TN_DTYPE_f32, {64}));
  f.alias(0, 0);
  const std::string wide = entry(written(f), "step0_wide");
  CHECK(holds(wide, "weight[u] = load<4, 16, false>"));
  CHECK(holds(wide, "gradient[u] = load<4, 16, true>"));
}

TEST_CASE("updates: a parameter below a word, or in another order than its gradient, has no wide entry") {
  for (const bool small : {true, false}) {
    FragmentBuilder f;
    const std::vector<int64_t> dims = small ? std::vector<int64_t>{3} : std::vector<int64_t>{8, 16};
    const std::vector<int64_t> turned = small ? std::vector<int64_t>{} : std::vector<int64_t>{1, 8};
    sgd(f, f.input(TN_DTYPE_f32, dims, turned), f.input(TN_DTYPE_f32, dims), f.input(TN_DTYPE_f32, {}),
        f.output(TN_DTYPE_f32, dims, turned));
    CAPTURE(small);
    CHECK(written(f).steps[0].wide.name.empty());
  }
  FragmentBuilder alike;  // the last dim of an image first in memory, of all operands
  const std::vector<int64_t> dims{8, 4, 3, 3}, last{36, 1, 12, 4};
  sgd(alike, alike.input(TN_DTYPE_f32, dims, last), alike.input(TN_DTYPE_f32, dims, last),
      alike.input(TN_DTYPE_f32, {}), alike.output(TN_DTYPE_f32, dims, last));
  CHECK(!written(alike).steps[0].wide.name.empty());
}

TEST_CASE("updates: f64 is a launch of its own, and so is every 257th setting") {
  FragmentBuilder mixed, rates;
  for (const uint32_t t : {TN_DTYPE_f32, TN_DTYPE_f64, TN_DTYPE_f32})
    sgd(mixed, mixed.input(t, {64}), mixed.input(t, {64}), mixed.input(TN_DTYPE_f32, {}),
        mixed.output(t, {64}));
  const Program program = written(mixed);
  REQUIRE(program.steps.size() == 2);
  CHECK(holds(program.source, "Figures<f64> figures[1]"));
  for (int i = 0; i < 257; ++i)
    sgd(rates, rates.input(TN_DTYPE_f32, {64}), rates.input(TN_DTYPE_f32, {64}),
        rates.input(TN_DTYPE_f32, {}), rates.output(TN_DTYPE_f32, {64}));
  CHECK(written(rates).steps.size() == 2);
}

TEST_CASE("updates: tables past the constant memory lie in the device's") {
  FragmentBuilder few, many;
  step_of(few, 161);
  const uint32_t scale = many.input(TN_DTYPE_f32, {}), rate = many.input(TN_DTYPE_f32, {});
  std::vector<uint32_t> scaled = {scale}, plain = {many.tensor(TN_DTYPE_f32, {})};
  for (int i = 0; i < 1300; ++i) {
    scaled.push_back(many.input(TN_DTYPE_f32, {8}));
    plain.push_back(many.tensor(TN_DTYPE_f32, {8}));
  }
  many.node(TN_OP_check_finite_and_unscale, scaled, plain);
  for (size_t i = 1; i <= 1300; ++i)
    sgd(many, many.input(TN_DTYPE_f32, {8}), plain[i], rate, many.output(TN_DTYPE_f32, {8}));
  CHECK(holds(written(few).source, "__constant__ const Job<"));
  CHECK(holds(written(many).source, "\n__device__ const Job<"));
}

TEST_CASE("updates: without elements there is only a flag to clear") {
  FragmentBuilder f, scan;
  sgd(f, f.input(TN_DTYPE_f32, {0, 3}), f.input(TN_DTYPE_f32, {0, 3}), f.input(TN_DTYPE_f32, {}),
      f.output(TN_DTYPE_f32, {0, 3}));
  CHECK(written(f).steps.empty());
  scan.node(TN_OP_check_finite_and_unscale, {scan.input(TN_DTYPE_f32, {}), scan.input(TN_DTYPE_f32, {0})},
            {scan.output(TN_DTYPE_f32, {}), scan.output(TN_DTYPE_f32, {0})});
  CHECK(written(scan).steps.size() == 1);
}

TEST_CASE("updates: as many bindings as a launch takes, and a reason for more") {
  FragmentBuilder f, more;
  const auto fill = [](FragmentBuilder& to, int count) {
    const uint32_t rate = to.input(TN_DTYPE_f32, {});
    for (int i = 0; i < count; ++i)
      sgd(to, to.input(TN_DTYPE_f32, {8}), to.input(TN_DTYPE_f32, {8}), rate, to.output(TN_DTYPE_f32, {8}));
  };
  fill(f, 1364);  // 4,093 bindings
  CHECK(written(f).steps.size() == 1);
  fill(more, 1365);
  CHECK(refused(more) == "the fragment has 4096 bindings; one program takes 4094: cut it");
}

TEST_CASE("updates: beside another op they are refused, which names the op without a kernel") {
  FragmentBuilder f;
  const uint32_t g = f.tensor(TN_DTYPE_f32, {8});
  f.node(TN_OP_neg, {f.input(TN_DTYPE_f32, {8})}, {g});
  sgd(f, f.input(TN_DTYPE_f32, {8}), g, f.input(TN_DTYPE_f32, {}), f.output(TN_DTYPE_f32, {8}));
  CHECK(holds(refused(f), "node 1 (sgd): no kernel is written for this op"));
}

TEST_CASE("updates: every pair of a step is honoured in place, however many") {
  FragmentBuilder f;
  StepScalars step(f);
  for (uint32_t i = 0; i < 30; ++i) {
    const uint32_t g = f.input(TN_DTYPE_f32, {64}),
                   base = 2 + 4 * i;  // its own place among the inputs, then w, m, v
    adam(f, step, g, {64}, 0.01);
    for (uint32_t k = 0; k < 3; ++k) f.alias(base + 1 + k, 3 * i + k);
  }
  CHECK(honoured_aliases(FragmentView(f.fragment())) == tenon::author::Honoured(90, true));
}

TEST_CASE("updates: an input that another node reads at the same time, or later, is not written in place") {
  FragmentBuilder f;
  const uint32_t t = TN_DTYPE_f32, w = f.input(t, {8}), g = f.input(t, {8}), rate = f.input(t, {});
  sgd(f, w, g, rate, f.output(t, {8}));
  sgd(f, w, g, rate, f.output(t, {8}), 0.5);
  f.alias(0, 0);
  f.alias(1, 1);
  CHECK(honoured(FragmentView(f.fragment())) == 0);

  FragmentBuilder chain;  // the second update reads what the first one would have overwritten
  const uint32_t a = chain.input(t, {8}), b = chain.input(t, {8}), lr = chain.input(t, {}),
                 made = chain.output(t, {8});
  sgd(chain, a, b, lr, made);
  sgd(chain, made, a, lr, chain.output(t, {8}));
  chain.alias(0, 0);
  chain.alias(1, 1);  // its reader is done by then, but reads another operand than the output renews
  CHECK(honoured(FragmentView(chain.fragment())) == 0);
}

TEST_CASE(
    "updates: a scalar that all elements read is not written in place, where an element is the output") {
  FragmentBuilder f;
  const uint32_t t = TN_DTYPE_f32, w = f.input(t, {}), g = f.input(t, {}), rate = f.input(t, {});
  sgd(f, w, g, rate, f.output(t, {}));
  f.alias(2, 0);
  CHECK(honoured(FragmentView(f.fragment())) == 0);
}

TEST_CASE("updates: loss scaling in place comes after those who divide by the scale, else with them") {
  for (const bool in_place : {true, false}) {
    FragmentBuilder f;
    step_of(f, 2);
    const uint32_t t = TN_DTYPE_f32, found = f.input(t, {}), good = f.input(t, {}), bad = f.input(t, {}),
                   scale = f.fragment().inputs[2];
    f.node(TN_OP_update_loss_scaling, {found, scale, good, bad},
           {f.output(t, {}), f.output(t, {}), f.output(t, {})})
        .integer("decr_every_n_nan_or_inf", 2)
        .integer("incr_every_n_steps", 1000)
        .real("decr_ratio", 0.5)
        .real("incr_ratio", 2);
    if (in_place) f.alias(2, f.fragment().output_count - 3);
    const Program program = written(f);
    CAPTURE(in_place);
    CHECK(program.steps.size() == (in_place ? 4 : 3));
    CHECK(honoured(FragmentView(f.fragment())) == (in_place ? 1 : 0));
  }
}

TEST_CASE("updates: equal steps of other names give equal sources") {
  FragmentBuilder one("one"), other("other");
  step_of(one, 5);
  step_of(other, 5);
  CHECK(written(one).source == written(other).source);
}
