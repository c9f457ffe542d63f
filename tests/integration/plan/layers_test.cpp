// SPDX-License-Identifier: Apache-2.0
// Small networks with the device's own fusions and without them: on every device the outputs differ by rounding at most.
#include "integration/plan/world.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::test;
using Ints = std::vector<int64_t>;

namespace {

// Two layers of products with biases, a residual and two kinds of activation.
Graph perceptron() {
  Graph g("perceptron");
  const auto x = g.input("x", {f32, {12, 32}});
  const auto h = g.relu(g.add(g.matmul(x, g.param("w1", {f32, {32, 32}})), g.param("b1", {f32, {32}})));
  const auto z = g.add(g.matmul(h, g.param("w2", {f32, {32, 32}})), g.param("b2", {f32, {32}}));
  const auto y = g.tanh(g.add(z, x));
  g.output("y", g.matmul(y, g.param("w3", {f32, {32, 5}})));
  return g;
}

// Convolutions whole and by channel, a pool, a mean and a product.
Graph network() {
  Graph g("network");
  const auto pad = Ints{1, 1, 1, 1};
  const auto x = g.input("x", {f32, {2, 3, 10, 10}});
  const auto a = g.relu(g.add(g.conv2d(x, g.param("w1", {f32, {8, 3, 3, 3}}), {{"pad", pad}}),
                              g.param("b1", {f32, {8, 1, 1}})));
  const auto b = g.conv2d(a, g.param("w2", {f32, {8, 1, 3, 3}}), {{"groups", int64_t{8}}, {"pad", pad}});
  const auto c = g.sigmoid(g.add(g.add(b, g.param("b2", {f32, {8, 1, 1}})), a));
  const auto pooled = g.max_pool(c, {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}});
  const auto means = g.reshape(g.global_pool(pooled), {2, 8});
  g.output("y", g.add(g.matmul(means, g.param("w3", {f32, {8, 4}})), g.param("b3", {f32, {4}})));
  return g;
}

size_t by_patterns(const Plan& plan) {
  size_t count = 0;
  for (const FusionGroup& group : plan.cut().groups)
    count += group.rule == "gemm_epilogue" || group.rule == "conv_bias_act" ? 1 : 0;
  return count;
}

void compare(const Graph& g, size_t patterns) {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  PlanOptions alone;
  alone.fusion.patterns = false;
  const auto together = plan(g, device, {}), apart = plan(g, device, alone);
  if (apart.code() == TN_UNSUPPORTED) TENON_SKIP("ops", std::string(apart.message()));
  REQUIRE(together.ok());
  REQUIRE(apart.ok());
  auto numbers = generator();
  Named given;
  for (const auto& value : g.values()) {
    if (value.producer == TN_ABSENT)
      given[value.name] = random_floats(value.spec.bytes() / sizeof(float), numbers);
  }
  const Named fused = run(*together, device, stream, given), single = run(*apart, device, stream, given);
  INFO(together->explain());
  for (const auto& [output, floats] : single) {
    const std::string& name = output;
    const Floats& expected = floats;
    const Floats& got = fused.at(name);
    REQUIRE(got.size() == expected.size());
    float most = 0;
    for (size_t i = 0; i < got.size(); ++i)
      most = std::max(most, std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i])));
    CHECK_MESSAGE(most <= 2e-5f, name);
  }
  CHECK(by_patterns(*apart) == 0);
  const auto published = must(fusion_target(device)).patterns;
  const bool here = std::any_of(published.begin(), published.end(),
                                [](const FusionPattern& one) { return one.name == "gemm_epilogue"; });
  if (here) CHECK(by_patterns(*together) == patterns);
}

}  // namespace

TEST_CASE("layers: a perceptron with patterns is the one without, within rounding") {
  compare(perceptron(), 2);
}

TEST_CASE("layers: a convolutional network with patterns is the one without, within rounding") {
  compare(network(), 3);
}
