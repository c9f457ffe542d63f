// SPDX-License-Identifier: Apache-2.0
// Gradients that accumulate in one buffer are those that are summed apart, whether the device writes the sum there or beside it.
//
// Invariant: whole numbers are few enough that every sum of them is exact in the type, so they are compared bit for bit.
#include "integration/plan/world.hpp"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

using Ints = std::vector<int64_t>;

// x is read by three layers, so its gradient is a sum of three products.
struct Network {
  Network(DType type, bool images) : g("network"), dtype(type) {
    const auto x = leaf("x", images ? Ints{2, 3, 5, 5} : Ints{6, 10});
    Graph::Value all{};
    for (const std::string number : {"1", "2", "3"}) {
      const auto w = leaf("w" + number, images ? Ints{4, 3, 3, 3} : Ints{10, 7});
      const auto y = images ? g.conv2d(x, w, {{"pad", Ints{1, 1, 1, 1}}}) : g.matmul(x, w);
      const auto part = g.mul(y, leaf("c" + number, images ? Ints{2, 4, 5, 5} : Ints{6, 7}));
      all = number == "1" ? part : g.add(all, part);
    }
    const auto loss = g.sum(g.cast(all, f32), images ? Ints{0, 1, 2, 3} : Ints{0, 1});
    const auto made = must(g.gradients(loss, {x}));
    g.output("dx", g.cast(made[0], f32));
    must(g.check());
  }

  Graph::Value leaf(const std::string& name, const Ints& dims) {
    const auto given = g.input(name, {f32, dims});
    sizes[name] = g.spec(given).elements();
    return dtype == f32 ? given : g.cast(given, dtype);
  }
  Named numbers(std::mt19937_64& random, bool whole) const {
    Named out;
    for (const auto& [name, size] : sizes) {
      out[name] = random_floats(size, random);
      for (float& one : out[name]) one = whole ? std::round(one) : one;
    }
    return out;
  }

  Graph g;
  DType dtype;
  std::map<std::string, size_t> sizes{};
};

// The network's gradient with sums in one buffer, cut as usual and node by node, and without.
struct Ways {
  Floats cut, single, apart;
};
struct Plans {
  Plan cut, single, apart;
  Ways run(World& w, const Named& given) const {
    const auto gradient = [&](const Plan& one) {
      return tenon::test::run(one, w.device, w.stream, given).at("dx");
    };
    return {gradient(cut), gradient(single), gradient(apart)};
  }
};

void check_near(const Floats& found, const Floats& expected, double unit) {
  double size = 0;
  for (const float x : expected) size = std::max(size, std::fabs(static_cast<double>(x)));
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(std::fabs(static_cast<double>(found[i]) - static_cast<double>(expected[i])) <= unit * size);
}

}  // namespace

TEST_CASE("addto: gradients that accumulate are those that are summed apart") {
  World w;
  std::mt19937_64 random(11);
  int compared = 0;
  for (const bool images : {false, true}) {
    for (const DType dtype : {f32, f16, bf16}) {
      CAPTURE(images);
      CAPTURE(name(dtype));
      const Network network(dtype, images);
      const passes::Rewritten work = must(passes::addto(network.g));
      REQUIRE(work.aliases.size() >= 2);
      auto apart = plan(network.g, w.device);
      if (apart.code() == TN_UNSUPPORTED) continue;  // a type or an op that the device has not
      const Plans plans{must(plan(work, w.device)), must(plan(work, w.device, node_by_node())),
                        must(std::move(apart))};
      INFO(plans.cut.explain() << plans.single.explain());
      const Ways whole = plans.run(w, network.numbers(random, true));
      CHECK(whole.cut == whole.apart);
      CHECK(whole.single == whole.apart);
      CHECK(std::any_of(whole.apart.begin(), whole.apart.end(), [](float x) { return x != 0; }));
      // Three terms, each rounded once where it is made and once where it is added.
      const double unit = dtype == f32 ? 0x1p-21 : dtype == f16 ? 0x1p-9 : 0x1p-6;
      const Ways any = plans.run(w, network.numbers(random, false));
      check_near(any.cut, any.apart, unit);
      check_near(any.single, any.apart, unit);
      ++compared;
    }
  }
  if (compared == 0) TENON_SKIP("products", w.device.name() + " has none");
}

TEST_CASE("addto: a sum in a launch of its own is written where the terms accumulate") {
  World w;
  const Network network(f32, false);
  const passes::Rewritten work = must(passes::addto(network.g));
  const auto made = plan(work, w.device, node_by_node());
  SKIP_IF_UNSUPPORTED(made, "matmul");
  if (made->cut().groups.size() == 1) TENON_SKIP("launches", w.device.name() + " takes whole graphs only");
  CHECK_HAS(made->explain(), "in place 2 between launches, 0 of parameters, 0 not\n");
}
