// SPDX-License-Identifier: Apache-2.0
// References whose results can be written down by hand.
#include "conformance/ops/reference.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace tenon::conform;

namespace {

using Numbers = std::vector<double>;

// An op with its operands in f64 (i64 where `indices` says so), its attributes, and its outputs' shapes.
struct Asked {
  const char* op;
  std::vector<AttributeValue> attributes{};
  std::vector<Tensor> in{};
  std::vector<std::vector<int64_t>> out{};
};

Tensor reals(std::vector<int64_t> dims, const Numbers& values) {
  Tensor out{.dtype = TN_DTYPE_f64, .dims = std::move(dims), .at = {}};
  for (const double value : values) out.at.push_back(Scalar::of(value));
  return out;
}
Tensor indices(std::vector<int64_t> dims, const std::vector<int64_t>& values) {
  Tensor out{.dtype = TN_DTYPE_i64, .dims = std::move(dims), .at = {}};
  for (const int64_t value : values) out.at.push_back(Scalar::of_whole(static_cast<uint64_t>(value)));
  return out;
}
Tensor absent() { return {}; }
AttributeValue number(const char* name, int64_t value) {
  return {.name = name, .kind = TN_ATTRIBUTE_I64, .integer = value};
}
AttributeValue real(const char* name, double value) {
  return {.name = name, .kind = TN_ATTRIBUTE_F64, .real = value};
}
AttributeValue list(const char* name, std::vector<int64_t> values) {
  return {.name = name, .kind = TN_ATTRIBUTE_I64S, .integers = std::move(values)};
}

// Output `n`, as numbers.
Numbers result(const Asked& asked, size_t n = 0) {
  Trial trial{.row = find_row(asked.op)};
  trial.attributes = asked.attributes;
  for (const Tensor& tensor : asked.in)
    trial.inputs.push_back(
        {.dtype = tensor.dtype, .dims = tensor.dims, .absent = tensor.dtype == TN_DTYPE_NONE});
  Job job{.trial = trial, .in = asked.in, .out = {}};
  for (const auto& dims : asked.out) {
    job.out.emplace_back().tensor = {
        .dtype = TN_DTYPE_f64, .dims = dims, .at = std::vector<Scalar>(element_count(dims))};
  }
  meaning_of(*trial.row).compute(job);
  Numbers out;
  for (const Scalar& one : job.out[n].tensor.at) out.push_back(one.real);
  return out;
}

void check_near(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("known values: movement") {
  const Tensor x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(result({"transpose", {list("order", {1, 0})}, {x}, {{3, 2}}}) == Numbers{1, 4, 2, 5, 3, 6});
  CHECK(
      result({"slice", {list("begin", {0, 0}), list("end", {2, 3}), list("step", {1, 2})}, {x}, {{2, 2}}}) ==
      Numbers{1, 3, 4, 6});
  CHECK(result({"pad", {list("before", {0, 1}), list("after", {1, 0}), real("value", 9)}, {x}, {{3, 4}}}) ==
        Numbers{9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9});
  CHECK(result({"concat", {number("axis", 1)}, {x, reals({2, 1}, {7, 8})}, {{2, 4}}}) ==
        Numbers{1, 2, 3, 7, 4, 5, 6, 8});
  CHECK(result({"broadcast_to", {}, {reals({2, 1}, {1, 2})}, {{2, 2}}}) == Numbers{1, 1, 2, 2});
  CHECK(result({"embedding", {}, {indices({2}, {1, 0}), x}, {{2, 3}}}) == Numbers{4, 5, 6, 1, 2, 3});
  CHECK(result({"embedding_grad", {}, {indices({2}, {1, 1}), x}, {{2, 3}}}) == Numbers{0, 0, 0, 5, 7, 9});
  CHECK(result({"one_hot", {number("classes", 3)}, {indices({2}, {2, 0})}, {{2, 3}}}) ==
        Numbers{0, 0, 1, 1, 0, 0});
}

TEST_CASE("known values: reductions and products") {
  const Tensor x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(result({"sum", {list("axes", {0})}, {x}, {{3}}}) == Numbers{5, 7, 9});
  CHECK(result({"mean", {list("axes", {1})}, {x}, {{2}}}) == Numbers{2, 5});
  CHECK(result({"reduce_prod", {list("axes", {0, 1})}, {x}, {{}}}) == Numbers{720});
  CHECK(result({"reduce_max", {list("axes", {0})}, {reals({0, 1}, {})}, {{1}}}) == Numbers{-INFINITY});
  CHECK(std::isnan(result({"reduce_min", {list("axes", {1})}, {reals({1, 2}, {NAN, 1})}, {{1}}})[0]));
  CHECK(result({"matmul", {}, {x, reals({3, 1}, {1, 0, -1})}, {{2, 1}}}) == Numbers{-2, -2});
  CHECK(result({"matmul", {number("transpose_a", 1)}, {x, reals({2, 1}, {1, -1})}, {{3, 1}}}) ==
        Numbers{-3, -3, -3});
}

TEST_CASE("known values: windows") {
  const Tensor x = reals({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<AttributeValue> window = {list("kernel", {2, 2}), list("stride", {1, 1}),
                                              list("pad", {0, 1, 0, 0})};
  CHECK(result({"max_pool", window, {x}, {{1, 1, 1, 3}}}) == Numbers{4, 5, 6});
  CHECK(result({"avg_pool", window, {x}, {{1, 1, 1, 3}}}) == Numbers{2.5, 3, 4});
  CHECK(result({"global_pool", {}, {x}, {{1, 1, 1, 1}}}) == Numbers{3.5});
  CHECK(result({"conv2d",
                {number("groups", 1), list("stride", {1, 2}), list("dilation", {1, 1}),
                 list("pad", {0, 0, 1, 0})},
                {x, reals({1, 1, 2, 1}, {1, 10})},
                {{1, 1, 2, 2}}}) == Numbers{41, 63, 4, 6});
}

TEST_CASE("known values: running statistics take the unbiased variance, which is 0 of one value") {
  const Tensor one = reals({1}, {1}), zero = reals({1}, {0}), before = reals({1}, {8});
  const std::vector<AttributeValue> half = {real("epsilon", 0), real("momentum", 0.5)};
  const auto variance = [&](const Numbers& x) {
    const auto images = static_cast<int64_t>(x.size());
    return result({"batch_norm_train",
                   half,
                   {reals({images, 1, 1, 1}, x), one, zero, zero, before},
                   {{images, 1, 1, 1}, {1}, {1}, {1}, {1}}},
                  4);
  };
  CHECK(variance({1, 3}) == Numbers{5});
  CHECK(variance({3}) == Numbers{4});
}

TEST_CASE("known values: shares are exact however far the scores lie from 0") {
  const Tensor far = reals({4}, {-1e15, 1e15, 1e15, -INFINITY});
  CHECK(result({"softmax", {number("axis", 0)}, {far}, {{4}}}) == Numbers{0, 0.5, 0.5, 0});
  const Tensor q = reals({1, 1, 1, 1}, {1}), k = reals({1, 1, 2, 1}, {1e15, 1e15}),
               v = reals({1, 1, 2, 1}, {2, 4});
  CHECK(result({"attention", {real("scale", 1)}, {q, k, v}, {{1, 1, 1, 1}, {1, 1, 1}}}) == Numbers{3});
}

TEST_CASE("known values: beside an infinite score the others have no share") {
  const double inf = INFINITY;
  const Numbers shares = result({"softmax", {number("axis", 0)}, {reals({3}, {1, inf, -inf})}, {{3}}}),
                logs = result({"log_softmax", {number("axis", 0)}, {reals({3}, {1, inf, -inf})}, {{3}}});
  CHECK((shares[0] == 0 && std::isnan(shares[1]) && shares[2] == 0));
  CHECK((logs[0] == -inf && std::isnan(logs[1]) && logs[2] == -inf));
  const Asked lost{"cross_entropy",
                   {number("ignore_index", -100)},
                   {reals({1, 2}, {3, inf}), indices({1}, {0})},
                   {{1}, {1}}};
  CHECK(result(lost) == Numbers{inf});
  CHECK(result(lost, 1) == Numbers{inf});
}

TEST_CASE("known values: optimizers") {
  const Tensor w = reals({1}, {1}), g = reals({1}, {0.5}), lr = reals({}, {0.1});
  check_near(result({"sgd", {real("weight_decay", 0.1)}, {w, g, lr}, {{1}, {}, {1}}}), {1 - 0.1 * 0.6});
  check_near(result({"momentum", {real("momentum", 0.9)}, {w, g, reals({1}, {2}), lr}, {{1}, {1}, {}}}),
             {1 - 0.1 * (0.9 * 2 + 0.5)});
  check_near(result({"momentum",
                     {real("momentum", 0.9), number("nesterov", 1)},
                     {w, g, reals({1}, {2}), lr},
                     {{1}, {1}, {}}}),
             {1 - 0.1 * (0.5 + 0.9 * 2.3)});
  const std::vector<AttributeValue> betas = {real("beta1", 0.9), real("beta2", 0.999), real("epsilon", 0),
                                             real("weight_decay", 0.01)};
  const std::vector<Tensor> first = {w, g, reals({1}, {0}), reals({1}, {0}), lr, reals({}, {1})};
  // The first step from zero moments moves by lr, whatever the gradient is.
  check_near(result({"adam", betas, first, {{1}, {1}, {1}, {}}}), {0.9});
  check_near(result({"adamw", betas, first, {{1}, {1}, {1}, {}}}), {1 - 0.1 * 0.01 - 0.1});
  const Tensor found = reals({}, {1});
  check_near(result({"sgd", {}, {w, g, lr, absent(), found}, {{1}, {}, {1}}}), {1});
}

TEST_CASE("known values: loss scaling") {
  CHECK(result({"check_finite_and_unscale", {}, {reals({}, {4}), reals({2}, {8, INFINITY})}, {{}, {2}}}) ==
        Numbers{1});
  CHECK(result({"check_finite_and_unscale", {}, {reals({}, {4}), reals({2}, {8, 2})}, {{}, {2}}}, 1) ==
        Numbers{2, 0.5});
  const std::vector<AttributeValue> policy = {number("decr_every_n_nan_or_inf", 2),
                                              number("incr_every_n_steps", 3), real("decr_ratio", 0.5),
                                              real("incr_ratio", 2)};
  const auto scaled = [&](double found, double good, double bad, double scale = 64) {
    return result({"update_loss_scaling",
                   policy,
                   {reals({}, {found}), reals({}, {scale}), reals({}, {good}), reals({}, {bad})},
                   {{}, {}, {}}});
  };
  CHECK(scaled(1, 5, 0) == Numbers{64});
  CHECK(scaled(1, 5, 1) == Numbers{32});
  CHECK(scaled(0, 1, 1) == Numbers{64});
  CHECK(scaled(0, 2, 1) == Numbers{128});
  CHECK(scaled(1, 5, 1, 1.5) == Numbers{1});
  CHECK(scaled(0, 2, 1, 0x1p+127) == Numbers{0x1p+127});
}

TEST_CASE("known values: far out gelu's gradient is 1 or 0, however large its polynomial is") {
  for (const int64_t tanh_form : {0, 1}) {
    check_near(result({"gelu_grad",
                       {number("tanh", tanh_form)},
                       {reals({2}, {3, 3}), reals({2}, {0x1p+700, -0x1p+700})},
                       {{2}}}),
               {3, 0});
  }
}
