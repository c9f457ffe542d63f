// SPDX-License-Identifier: Apache-2.0
// Fused is unfused, bit for bit, where the order of operations is kept: over random graphs on every device, of tensors with and without
// elements, of numbers in range, whole numbers that meet, and numbers that are none.
#include "integration/plan/world.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

using namespace tenon;
using namespace tenon::test;

namespace {

struct Sizes {
  int64_t rows, columns;
};
constexpr Sizes all_sizes[] = {{6, 8}, {5, 37}, {1, 8}, {6, 1}, {1, 1}, {0, 8}, {6, 0}};

// What random layers are made of.
class Layers {
 public:
  Layers(std::mt19937_64& random, Sizes sizes) : random_(random) {
    const auto [rows, columns] = sizes;
    wide_ = {g_.input("x", {f32, {rows, columns}}), g_.input("y", {f32, {rows, columns}})};
    narrow_ = {g_.param("b", {f32, {columns}}), g_.param("c", {f32, {rows, 1}})};
  }

  // Elementwise nodes over two shapes and reductions.
  Graph make(size_t nodes) && {
    while (g_.nodes().size() < nodes) random_() % 3 == 0 ? bend() : combine();
    g_.output("last", wide_.back());
    g_.output("small", g_.sum(g_.abs(wide()), {1}));
    if (random_() % 2 == 0) g_.output("other", g_.neg(wide()));
    must(g_.check());
    return std::move(g_);
  }

 private:
  using Values = std::vector<Graph::Value>;
  Graph::Value any(const Values& from) { return from[random_() % from.size()]; }
  Graph::Value wide() { return any(wide_); }
  Graph::Value narrow() { return any(narrow_); }

  void combine() {
    switch (random_() % 8) {
      case 0:
        return wide_.push_back(g_.tanh(g_.add(wide(), narrow())));
      case 1:
        return wide_.push_back(g_.mul(wide(), narrow()));
      case 2:
        return wide_.push_back(g_.sub(wide(), wide()));
      case 3:
        return narrow_.push_back(g_.neg(narrow()));
      case 4:
        return narrow_.push_back(g_.reduce_max(wide(), {1}, true));
      case 5:
        return wide_.push_back(g_.sigmoid(wide()));
      case 6:
        return wide_.push_back(g_.relu(g_.scale(wide(), 0.5, 0.25)));
      default:
        return wide_.push_back(g_.max(wide(), wide()));
    }
  }
  // What jumps.
  void bend() {
    switch (random_() % 4) {
      case 0:
        return wide_.push_back(g_.floor(g_.scale(wide(), 4)));
      case 1:
        return wide_.push_back(g_.sign(wide()));
      case 2:
        return wide_.push_back(g_.node(Op::relu_grad, {wide(), wide()})[0]);
      default:
        return wide_.push_back(g_.where(g_.less(wide(), narrow()), wide(), wide()));
    }
  }

  std::mt19937_64& random_;
  Graph g_{"random"};
  Values wide_{}, narrow_{};
};

// In range; whole numbers, which meet; or in range with some that are none, or too large for sums.
Floats some_floats(int64_t count, int kind, std::mt19937_64& random) {
  Floats out = random_floats(static_cast<size_t>(count), random);
  constexpr float odd[] = {NAN, INFINITY, -INFINITY, -0.0F, 3e38F};
  for (float& x : out) {
    if (kind == 1) x = std::round(3 * x);
    if (kind == 2 && random() % 6 == 0) x = odd[random() % std::size(odd)];
  }
  return out;
}

// A NaN is a NaN, whichever of two was kept.
bool same_bits(const Floats& a, const Floats& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) || (std::isnan(x) && std::isnan(y));
  });
}

}  // namespace

TEST_CASE("fused: random graphs give the bits of their nodes one by one") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  auto numbers = generator();
  const int graphs = full_numbers_or("random graphs", under_tsan ? 20 : 200, 2000);
  const PlanOptions alone = node_by_node();
  size_t launches_saved = 0;
  for (int i = 0; i < graphs; ++i) {
    CAPTURE(i);
    const Sizes sizes = i % 3 == 0 ? all_sizes[numbers() % std::size(all_sizes)] : all_sizes[0];
    const Graph g = Layers(numbers, sizes).make(4 + numbers() % 30);
    const Plan together = must(plan(g, device)), apart = must(plan(g, device, alone));
    const auto floats = [&](int64_t count) { return some_floats(count, i % 4 - 1, numbers); };
    const Named given{{"x", floats(sizes.rows * sizes.columns)},
                      {"y", floats(sizes.rows * sizes.columns)},
                      {"b", floats(sizes.columns)},
                      {"c", floats(sizes.rows)}};
    const Named fused = run(together, device, stream, given), single = run(apart, device, stream, given);
    for (const auto& output : single) {
      INFO(g.text() << together.explain());
      CHECK_MESSAGE(same_bits(fused.at(output.first), output.second), output.first);
    }
    launches_saved += apart.cut().groups.size() - together.cut().groups.size();
  }
  const bool whole_graphs = (device.plugin().features & TN_FEATURE_WHOLE_GRAPH) != 0;
  if (!whole_graphs) CHECK(launches_saved > static_cast<size_t>(graphs));
}
