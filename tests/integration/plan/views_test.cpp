// SPDX-License-Identifier: Apache-2.0
// A reshape of what lies between launches is no launch: what it gives is where its input is. Nothing is written over what is
// still read in another shape.
//
// Invariant: what a graph must compute is told by the host, which knows no shapes: all values have the same elements in order.
#include "integration/plan/world.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

using Ints = std::vector<int64_t>;

Floats negated(Floats numbers) {
  for (float& x : numbers) x = -x;
  return numbers;
}

// A graph of negations, sums and reshapes of 24 elements at random, and what each of its outputs must be.
class ReshapeGraph {
 public:
  explicit ReshapeGraph(std::mt19937_64& numbers) : numbers_(numbers) {
    for (float& x : given_) x = static_cast<float>(static_cast<int>(numbers_() % 9) - 4);
    add(g_.input("x", {f32, {24}}), given_);
    for (int i = 0; i < 24; ++i) grow();
    for (size_t i = 1; i < made_.size(); ++i) {
      if (i + 1 != made_.size() && numbers_() % 8 != 0) continue;
      const std::string name = "y" + std::to_string(i);
      g_.output(name, made_[i].value);
      expected_[name] = made_[i].numbers;
    }
    must(g_.check());
  }

  const Graph& graph() const { return g_; }
  Named given() const { return {{"x", given_}}; }
  const Named& expected() const { return expected_; }

 private:
  struct Made {
    Graph::Value value;
    Floats numbers;
  };

  void add(Graph::Value value, Floats numbers) { made_.push_back({value, std::move(numbers)}); }
  Ints dims(Graph::Value value) const { return g_.values()[value.index].spec.dims; }

  void grow() {
    const Made a = made_[numbers_() % made_.size()], b = made_[numbers_() % made_.size()];
    static const Ints shapes[] = {{24}, {4, 6}, {2, 3, 4}, {6, 4}};
    switch (numbers_() % 3) {
      case 0:
        return add(g_.neg(a.value), negated(a.numbers));
      case 1:
        if (dims(a.value) == dims(b.value)) {
          Floats sum = a.numbers;
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += b.numbers[i];
          return add(g_.add(a.value, b.value), std::move(sum));
        }
        [[fallthrough]];
      default:
        return add(g_.reshape(a.value, shapes[numbers_() % 4]), a.numbers);
    }
  }

  std::mt19937_64& numbers_;
  Graph g_{"random"};
  Floats given_ = Floats(24);
  std::vector<Made> made_{};
  Named expected_{};
};

}  // namespace

TEST_CASE("views: a reshape between launches is none, and a view of a view is where the first value is") {
  World w;
  Graph g("views");
  const auto t = g.neg(g.input("x", {f32, {4, 6}}));
  const auto r = g.reshape(g.reshape(t, {24}), {2, 12});
  g.output("y", g.neg(r));
  g.output("z", g.abs(t));
  const auto made = plan(g, w.device, node_by_node());
  SKIP_IF_UNSUPPORTED(made, "reshape");
  if (made->cut().groups.size() == 1) TENON_SKIP("launches", w.device.name() + " takes whole graphs only");
  CHECK_HAS(made->explain(), "views    2 reshapes without a launch");
  Floats x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 10;
  const Named got = run(*made, w.device, w.stream, {{"x", x}});
  CHECK(got.at("y") == x);
  for (float& number : x) number = std::abs(number);
  CHECK(got.at("z") == x);
}

TEST_CASE("views: what the caller binds is not seen in another shape but copied") {
  World w;
  Graph g("bound");
  const auto x = g.input("x", {f32, {4, 6}});
  const auto t = g.neg(x);
  g.output("in", g.neg(g.reshape(x, {24})));
  g.output("t", t);
  g.output("out", g.reshape(g.neg(t), {24}));
  g.output("both", g.neg(g.reshape(t, {24})));
  const auto made = plan(g, w.device, node_by_node());
  SKIP_IF_UNSUPPORTED(made, "reshape");
  CHECK(made->explain().find("views ") == std::string::npos);
  const Floats numbers(24, 3);
  const Named got = run(*made, w.device, w.stream, {{"x", numbers}});
  CHECK(got.at("in") == negated(numbers));
  CHECK(got.at("out") == numbers);
  CHECK(got.at("both") == numbers);
}

TEST_CASE("views: nothing is written over a value that is read in another shape later") {
  World w;
  Graph g("hazard");
  const auto t = g.named("t").neg(g.input("x", {f32, {4, 6}}));
  const auto seen = g.named("seen").reshape(t, {24});
  const auto over = g.named("over").neg(t);
  g.output("y", g.neg(over));
  g.output("late", g.neg(seen));
  passes::Rewritten work(g);
  work.aliases = {{.node = g.values()[over.index].producer, .output = 0, .input = 0}};
  const auto made = plan(work, w.device, node_by_node());
  SKIP_IF_UNSUPPORTED(made, "reshape");
  if (made->cut().groups.size() == 1) TENON_SKIP("launches", w.device.name() + " takes whole graphs only");
  CHECK_HAS(made->explain(), "'t' is seen in another shape as well");
  const Floats x(24, 5);
  const Named got = run(*made, w.device, w.stream, {{"x", x}});
  CHECK(got.at("late") == x);
  CHECK(got.at("y") == negated(x));
}

TEST_CASE("views: random graphs of reshapes, in place and fused or not, compute what the host computes") {
  World w;
  auto numbers = generator();
  const int graphs = full_or("random graphs of reshapes", 40, 1'000);
  for (int i = 0; i < graphs; ++i) {
    CAPTURE(i);
    const ReshapeGraph random(numbers);
    INFO(random.graph().text());
    passes::Rewritten work(random.graph());
    if (numbers() % 4 != 0) work = must(passes::in_place(std::move(work)));
    const auto made = plan(work, w.device, numbers() % 2 == 0 ? node_by_node() : PlanOptions{});
    SKIP_IF_UNSUPPORTED(made, "reshape");
    INFO(made->explain());
    REQUIRE(run(*made, w.device, w.stream, random.given()) == random.expected());
  }
}
