// SPDX-License-Identifier: Apache-2.0
// The references themselves: known values, and backward ops against the slopes of their forward ops.
#include "conformance/ops/reference.hpp"

#include "conformance/ops/draw.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

using namespace tenon::conform;

namespace {

Tensor reals(std::vector<int64_t> dims, std::initializer_list<double> values) {
  Tensor out{.dtype = TN_DTYPE_f64, .dims = std::move(dims), .at = {}};
  for (const double value : values) out.at.push_back(Scalar::of(value));
  return out;
}

// The forward op of a backward op: which of its operands are the backward op's inputs, which input is dy, and of which
// forward inputs the backward outputs are the gradients.
struct Pair {
  const char *backward, *forward;
  std::vector<size_t> operands;
  size_t dy;
  std::vector<size_t> gradients;
};

const Pair pairs[] = {{"softmax_grad", "softmax", {}, 0, {0}},
                      {"conv2d_grad_data", "conv2d", {}, 0, {0}},
                      {"conv2d_grad_weight", "conv2d", {}, 1, {1}},
                      {"max_pool_grad", "max_pool", {1}, 0, {0}},
                      {"avg_pool_grad", "avg_pool", {}, 0, {0}},
                      {"layer_norm_grad", "layer_norm", {1, 2}, 0, {0, 1, 2}},
                      {"rms_norm_grad", "rms_norm", {1, 2}, 0, {0, 1}},
                      {"batch_norm_grad", "batch_norm_train", {1, 2}, 0, {0, 1, 2}},
                      {"cross_entropy_grad", "cross_entropy", {0, 1}, 3, {0}},
                      {"attention_grad", "attention", {1, 2, 3, 6}, 0, {0, 1, 2}}};

// The forward trial whose gradient `backward` is, and its numbers.
struct Forward {
  Trial trial;
  std::vector<Tensor> in;
};

Operand operand_of(const Tensor& tensor) { return {.dtype = tensor.dtype, .dims = tensor.dims}; }

Tensor like(const Operand& operand, double value) {
  return {.dtype = operand.dtype,
          .dims = operand.dims,
          .at = std::vector<Scalar>(element_count(operand.dims), Scalar::of(value))};
}

Forward forward_of(const Pair& pair, const Job& job) {
  Forward out;
  out.trial = job.trial;
  out.trial.row = find_row(pair.forward);
  out.trial.inputs.clear();
  out.trial.outputs.clear();
  out.trial.attributes.push_back({.name = "epsilon", .kind = TN_ATTRIBUTE_F64, .real = 1e-5});
  for (const size_t i : pair.operands) {
    if (i < job.in.size() && job.has(i)) out.in.push_back(job.in[i]);
  }
  if (pair.forward == std::string_view("conv2d")) {
    const bool data = pair.gradients[0] == 0;
    out.in = {data ? like(job.trial.outputs[0], 0) : job.in[0],
              data ? job.in[1] : like(job.trial.outputs[0], 0)};
  } else if (pair.forward == std::string_view("avg_pool")) {
    out.in = {like(job.trial.outputs[0], 0)};
  } else if (pair.forward == std::string_view("layer_norm")) {
    out.in.push_back(like(job.trial.outputs[2], 0));  // bias
  } else if (pair.forward == std::string_view("batch_norm_train")) {
    for (int i = 0; i < 3; ++i) out.in.push_back(like(job.trial.outputs[2], 1));
  }
  for (const Tensor& tensor : out.in) out.trial.inputs.push_back(operand_of(tensor));
  return out;
}

// Σ dy · forward(in), of output 0.
double loss(const Forward& f, const Tensor& dy) {
  Job job{.trial = f.trial, .in = f.in, .out = {}};
  job.out.resize(5);
  const Meaning& meaning = meaning_of(*f.trial.row);
  job.out[0].tensor = {.dtype = TN_DTYPE_f64, .dims = dy.dims, .at = std::vector<Scalar>(dy.at.size())};
  for (size_t i = 1; i < 5; ++i) {
    job.out[i].tensor = {.dtype = TN_DTYPE_f64, .dims = {}, .at = std::vector<Scalar>(dy.at.size() + 64)};
  }
  meaning.compute(job);
  double out = 0;
  for (size_t i = 0; i < dy.at.size(); ++i) out += dy.at[i].real * job.out[0].tensor.at[i].real;
  return out;
}

void check_slopes(const Pair& pair, const Job& job, const Forward& given) {
  for (size_t n = 0; n < pair.gradients.size(); ++n) {
    const Tensor& gradient = job.out[n].tensor;
    for (size_t i = 0; i < gradient.at.size(); i += gradient.at.size() / 5 + 1) {
      const double step = 1e-5;
      Forward up = given, down = given;
      up.in[pair.gradients[n]].at[i].real += step;
      down.in[pair.gradients[n]].at[i].real -= step;
      const double slope = (loss(up, job.in[pair.dy]) - loss(down, job.in[pair.dy])) / (2 * step);
      CAPTURE(told(job.trial));
      CAPTURE(n);
      CAPTURE(i);
      CHECK(gradient.at[i].real == doctest::Approx(slope).epsilon(1e-4).scale(1));
    }
  }
}

}  // namespace

TEST_CASE("reference: backward ops are the slopes of their forward ops") {
  Random random(21);
  for (const Pair& pair : pairs) {
    if (pair.backward == std::string_view("softmax_grad")) continue;  // y is an input of its own; below
    for (int round = 0; round < 4; ++round) {
      Choices choices(random);
      Trial trial = draw_trial(*find_row(pair.backward), TN_DTYPE_f64, Form::dense, 60, choices);
      trial.specials = false;
      for (Operand& operand : trial.inputs) {
        if (operand.dtype == TN_DTYPE_f32) operand.dtype = TN_DTYPE_f64;  // no rounding in between
      }
      const Job job = solve(trial);
      check_slopes(pair, job, forward_of(pair, job));
    }
  }
}

TEST_CASE("reference: the gradient of softmax from its own result") {
  Trial trial{.row = find_row("softmax")};
  trial.attributes = {{.name = "axis", .kind = TN_ATTRIBUTE_I64, .integer = -1}};
  const auto softmax = [&](const Tensor& x) {
    Job job{.trial = trial, .in = {x}, .out = {}};
    job.out.resize(1);
    job.out[0].tensor = {.dtype = TN_DTYPE_f64, .dims = x.dims, .at = std::vector<Scalar>(x.at.size())};
    reference::softmax(job);
    return job.out[0].tensor;
  };
  const Tensor x = reals({2, 3}, {0.5, -1, 2, 0, 0.25, 1}), dy = reals({2, 3}, {1, -2, 0.5, 3, 0, 1});
  Job job{.trial = trial, .in = {dy, softmax(x)}, .out = {}};
  job.out.resize(1);
  job.out[0].tensor = x;
  reference::softmax_grad(job);
  for (size_t i = 0; i < 6; ++i) {
    Tensor up = x, down = x;
    up.at[i].real += 1e-6;
    down.at[i].real -= 1e-6;
    const Tensor high = softmax(up), low = softmax(down);
    double slope = 0;
    for (size_t k = 0; k < 6; ++k) slope += dy.at[k].real * (high.at[k].real - low.at[k].real) / 2e-6;
    CHECK(job.out[0].tensor.at[i].real == doctest::Approx(slope).epsilon(1e-6));
  }
}

TEST_CASE("reference: Philox4x32-10 gives its published numbers") {
  Trial trial{.row = find_row("random_uniform")};
  Tensor zero{.dtype = TN_DTYPE_u64, .dims = {}, .at = {Scalar::of_whole(0)}};
  Job job{.trial = trial, .in = {zero, zero}, .out = {}};
  job.out.resize(1);
  job.out[0].tensor = reals({1}, {0});
  reference::random_uniform(job);
  CHECK(job.out[0].tensor.at[0].real == (0x6627e8d5u >> 8) * 0x1p-24);  // Random123's kat_vectors
}

TEST_CASE("reference: integers divide toward zero, by zero to zero, and wrap") {
  const auto divided = [](const char* op, uint32_t dtype, int64_t a, int64_t b) {
    const Row& row = *find_row(op);
    Trial trial{.row = &row};
    const auto whole = [&](int64_t value) {
      return Tensor{
          .dtype = dtype, .dims = {}, .at = {Scalar::of_whole(wrapped(dtype, static_cast<uint64_t>(value)))}};
    };
    Job job{.trial = trial, .in = {whole(a), whole(b)}, .out = {}};
    job.out.resize(1);
    job.out[0].tensor = whole(0);
    meaning_of(row).compute(job);
    return job.out[0].tensor.at[0].integer();
  };
  CHECK(divided("div", TN_DTYPE_i32, -7, 2) == -3);
  CHECK(divided("mod", TN_DTYPE_i32, -7, 2) == -1);
  CHECK(divided("div", TN_DTYPE_i32, 7, 0) == 0);
  CHECK(divided("mod", TN_DTYPE_i32, 7, 0) == 0);
  CHECK(divided("div", TN_DTYPE_i64, INT64_MIN, -1) == INT64_MIN);
  CHECK(divided("mod", TN_DTYPE_i64, INT64_MIN, -1) == 0);
  CHECK(divided("div", TN_DTYPE_i8, -128, -1) == -128);
  CHECK(divided("add", TN_DTYPE_u8, 200, 100) == 44);
}

TEST_CASE("reference: sums are kept far beyond the precision they are compared in") {
  Sum sum;
  sum.add(1e16);
  for (int i = 0; i < 1000; ++i) sum.add(1);
  sum.add(-1e16);
  CHECK(sum.value() == 1000);
  CHECK(sum.magnitude() == doctest::Approx(2e16));
}
