// SPDX-License-Identifier: Apache-2.0
// Trials of every op: legal, complete, repeatable.
#include "conformance/ops/draw.hpp"
#include "conformance/ops/kernel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace tenon::conform;

namespace {

template <class F>
void each_trial(int rounds, const F& f) {
  Random random(11);
  for (const Row& row : op_rows) {
    if (!is_single(row)) continue;
    for (const uint32_t dtype : subjects(row)) {
      for (int i = 0; i < rounds; ++i) {
        const Form form = i % 3 == 0 ? Form::dense : i % 3 == 1 ? Form::strided : Form::in_place;
        Choices choices(random);
        f(row, draw_trial(row, dtype, form, 500, choices));
      }
    }
  }
}

bool overlaps(const Operand& operand) {
  const std::vector<uint64_t> at = places(operand.dims, strides_of(operand));
  return std::set<uint64_t>(at.begin(), at.end()).size() != at.size();
}

}  // namespace

TEST_CASE("draw: every trial keeps its row's columns") {
  each_trial(12, [](const Row& row, const Trial& trial) {
    CAPTURE(told(trial));
    const bool many = row.inputs_max == TN_OP_MANY;
    REQUIRE(trial.inputs.size() >= row.inputs_min);
    REQUIRE((many || trial.inputs.size() <= row.inputs_max));
    REQUIRE((row.outputs == TN_OP_MANY || trial.outputs.size() == row.outputs));
    for (uint32_t i = 0; i < row.inputs_min; ++i) REQUIRE(!trial.inputs[i].absent);
    std::vector<std::string> named, expected;
    for (const AttributeValue& a : trial.attributes) named.push_back(a.name);
    for (const AttributeRow& a : attributes_of(row)) expected.emplace_back(a.name);
    std::sort(expected.begin(), expected.end());
    REQUIRE(named == expected);
    for (const Operand& output : trial.outputs) {
      REQUIRE(output.dims.size() <= TN_MAX_RANK);
      REQUIRE(std::all_of(output.dims.begin(), output.dims.end(), [](int64_t dim) { return dim >= 0; }));
      if (!output.absent) REQUIRE(!overlaps(output));
    }
  });
}

TEST_CASE("draw: every trial can be solved, its outputs are of the trial's shapes") {
  each_trial(6, [](const Row&, const Trial& trial) {
    CAPTURE(told(trial));
    const Job job = solve(trial);
    REQUIRE(job.out.size() == trial.outputs.size());
    for (size_t i = 0; i < job.out.size(); ++i) {
      const uint64_t count = trial.outputs[i].absent ? 0 : element_count(trial.outputs[i].dims);
      REQUIRE(job.out[i].tensor.at.size() == count);
    }
  });
}

TEST_CASE("draw: the simplest choices make a legal trial of every op") {
  for (const Row& row : op_rows) {
    if (!is_single(row)) continue;
    for (const Form form : {Form::dense, Form::strided, Form::in_place}) {
      Choices simplest(std::vector<uint64_t>{});
      const Trial trial = draw_trial(row, subjects(row).front(), form, 100, simplest);
      CAPTURE(told(trial));
      uint64_t most = 0;
      for (const Operand& output : trial.outputs) most = std::max(most, element_count(output.dims));
      CHECK(most <= 8);
      CHECK(solve(trial).out.size() == trial.outputs.size());
    }
  }
}

TEST_CASE("draw: images have one value a channel at times, and more most of the time") {
  Random random(13);
  int alone = 0;
  const int rounds = 200;
  for (int i = 0; i < rounds; ++i) {
    Choices choices(random);
    const Trial trial = draw_trial(*find_row("batch_norm_train"), TN_DTYPE_f32, Form::dense, 500, choices);
    const std::vector<int64_t>& x = trial.inputs[0].dims;
    alone += x[0] * x[2] * x[3] == 1 ? 1 : 0;
  }
  CHECK(alone > rounds / 10);
  CHECK(alone < rounds / 2);
}

TEST_CASE("draw: in place, every op that may has an output in an input's place") {
  Random random(12);
  for (const Row& row : op_rows) {
    if (!is_single(row) || !may_run_in_place(row)) continue;
    for (const uint32_t dtype : subjects(row)) {
      Choices choices(random);
      const Trial trial = draw_trial(row, dtype, Form::in_place, 500, choices);
      CAPTURE(told(trial));
      REQUIRE(!trial.aliases.empty());
      const tn_alias& pair = trial.aliases.front();
      CHECK(trial.outputs[pair.output].dims == trial.inputs[pair.input].dims);
    }
  }
}

TEST_CASE("draw: equal seeds make equal trials, two seeds do not") {
  const Row& row = *find_row("add");
  const auto made = [&](uint64_t seed) {
    Random random(seed);
    Choices choices(random);
    return told(draw_trial(row, TN_DTYPE_f32, Form::strided, 500, choices)) + std::to_string(random.drawn());
  };
  CHECK(made(1) == made(1));
  CHECK(made(1) != made(2));
}

// Plugins have kernels of their own for convolutions with one channel in a group, which a run must meet whatever its seed.
TEST_CASE("draw: of convolutions some have one channel in each of many groups, others many channels in one") {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    Random random(seed);
    int depthwise = 0, dense = 0, between = 0;
    for (int i = 0; i < 200; ++i) {
      Choices choices(random);
      const Trial trial = draw_trial(*find_row("conv2d"), TN_DTYPE_f32, Form::dense, 500, choices);
      const int64_t groups = trial.integer("groups"), channels = trial.inputs[0].dims[1];
      if (groups == channels && groups > 3) ++depthwise;
      if (groups == 1 && channels > 1) ++dense;
      if (groups > 1 && channels > groups) ++between;
    }
    CAPTURE(seed);
    CHECK(depthwise >= 20);
    CHECK(dense >= 20);
    CHECK(between >= 20);
  }
}

TEST_CASE("draw: a fragment's identity follows what it is made of, not where it lies") {
  Random random(5);
  Choices choices(random);
  const Trial trial = draw_trial(*find_row("conv2d"), TN_DTYPE_f32, Form::dense, 500, choices);
  const auto identity = [](const Trial& t) {
    const OneNode node(t);
    return std::vector<uint8_t>(std::begin(node.fragment().identity), std::end(node.fragment().identity));
  };
  CHECK(identity(trial) == identity(trial));
  Trial other = trial;
  other.attributes[1].integer += 1;
  CHECK(identity(other) != identity(trial));
  other = trial;
  other.inputs[0].dtype = TN_DTYPE_f16;
  CHECK(identity(other) != identity(trial));
}
