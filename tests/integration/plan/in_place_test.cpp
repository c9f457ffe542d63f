// SPDX-License-Identifier: Apache-2.0
// A plan puts values where the passes said: over what nobody reads any more, and in the order of memory that was chosen. What
// would overwrite something that is read later is not done, whoever asked for it.
#include "integration/plan/world.hpp"

#include <cmath>
#include <map>

using namespace tenon;
using namespace tenon::test;

namespace {

Graph chain(int nodes) {
  Graph g("chain");
  auto value = g.input("x", {f32, {1 << 10}});
  for (int i = 0; i < nodes; ++i) value = g.neg(value);
  g.output("y", value);
  return g;
}

// One value of 4 KiB at a time instead of two; on a simulated device the workspaces of its launches decide the peak.
void check_figures(const Plan& apart, const Plan& in_place) {
  if (device_under_test().plugin != "cpu") return;
  CHECK(apart.memory_bytes() == 2 * 4096);
  CHECK(in_place.memory_bytes() == 4096);
}

bool writes_in_place(const Plan& plan) {
  return plan.explain().find(" does not write it in place there") == std::string::npos;
}

}  // namespace

TEST_CASE("in place: a chain of results takes one buffer where it took two, and says so") {
  World w;
  const passes::Rewritten work = must(passes::in_place(chain(10)));
  const Plan apart = must(plan(work.graph, w.device, node_by_node())),
             made = must(plan(work, w.device, node_by_node()));
  if (made.cut().groups.size() == 1) TENON_SKIP("launches", w.device.name() + " takes whole graphs only");
  const std::string told = made.explain();
  CHECK(apart.explain().find("in place") == std::string::npos);
  if (!writes_in_place(made)) TENON_SKIP("in place", w.device.name() + " writes no neg over its input");
  CHECK_HAS(told, "in place 8 between launches, 0 of parameters, 1 not\n");
  CHECK_HAS(told, "the caller binds it");
  check_figures(apart, made);
  CHECK(run(made, w.device, w.stream, {{"x", Floats(1 << 10, 3)}}).at("y") == Floats(1 << 10, 3));
}

TEST_CASE("in place: through a fused group what leaves it lies over what came in") {
  World w;
  Graph g("fused");
  const auto turned = g.named("turned").transpose(g.input("x", {f32, {32, 32}}), {1, 0});
  g.output("y", g.named("back").transpose(g.named("b").tanh(g.named("a").neg(turned)), {1, 0}));
  const passes::Rewritten work = must(passes::in_place(g));
  const auto made = plan(work, w.device);
  SKIP_IF_UNSUPPORTED(made, "transpose");
  if (made->cut().groups.size() == 1) TENON_SKIP("launches", w.device.name() + " takes whole graphs only");
  if (!writes_in_place(*made))
    TENON_SKIP("in place", w.device.name() + " writes nothing over its input here");
  const Plan apart = must(plan(work.graph, w.device));
  INFO(made->explain());
  check_figures(apart, *made);
  std::mt19937_64 numbers(3);
  const Named given{{"x", random_floats(1 << 10, numbers)}};
  CHECK(run(*made, w.device, w.stream, given) == run(apart, w.device, w.stream, given));
}

TEST_CASE("in place: an alias over a value that is read again is not followed, and the reader is told") {
  World w;
  Graph g("hazard");
  const auto t = g.named("t").neg(g.input("x", {f32, {64}}));
  const auto a = g.named("a").abs(t);
  g.output("y", g.named("sum").add(g.named("late").neg(a), t));
  passes::Rewritten work(g);
  work.aliases.push_back({.node = 1, .output = 0, .input = 0});  // a over t, which 'sum' reads later
  const Plan made = must(plan(work, w.device, node_by_node()));
  if (made.cut().groups.size() == 1) TENON_SKIP("launches", w.device.name() + " takes whole graphs only");
  CHECK_HAS(made.explain(), "apart    'a' over 't': 't' is read again by launch 3");
  CHECK_HAS(made.explain(), "in place 0 between launches, 0 of parameters, 1 not\n");
  CHECK(run(made, w.device, w.stream, {{"x", Floats(64, 2)}}).at("y") == Floats(64, -4));
}

TEST_CASE("in place: an alias over an input, or that names nothing, is refused") {
  World w;
  Graph g;
  g.output("y", g.neg(g.named("a").neg(g.input("x", {f32, {64}}))));
  passes::Rewritten over_input(g), nowhere(g), shortened(g), hidden(g);
  over_input.aliases.push_back({.node = 0, .output = 0, .input = 0});
  const Plan made = must(plan(over_input, w.device, node_by_node()));
  if (made.cut().groups.size() > 1)
    CHECK_HAS(made.explain(), "'a' over 'x': 'x' is an input, which belongs to the caller");
  nowhere.aliases.push_back({.node = 7, .output = 0, .input = 0});
  const auto refused = plan(nowhere, w.device);
  CHECK(refused.code() == TN_INVALID);
  CHECK_HAS(std::string(refused.message()), "of node 7, which has none");
  shortened.placements.push_back({.value = 1, .strides = {1, 1}});
  CHECK(plan(shortened, w.device).code() == TN_INVALID);
  hidden.placements.push_back({.value = 1, .layout = "NC16HW16"});
  const auto unknown = plan(hidden, w.device);
  CHECK(unknown.code() == TN_UNSUPPORTED);
  CHECK_HAS(std::string(unknown.message()), "'a' is to lie in the private layout 'NC16HW16'");
}

TEST_CASE("in place: a parameter is renewed where it lies") {
  World w;
  Graph g("step");
  const auto p = g.param("w", {f32, {256}}), d = g.input("d", {f32, {256}}),
             rate = g.input("rate", {f32, {}});
  g.output("w.next", g.sgd(p, d, rate)[0]);
  const passes::Rewritten work = must(passes::in_place(g));
  const auto made = plan(work, w.device);
  SKIP_IF_UNSUPPORTED(made, "sgd");
  if (!writes_in_place(*made))
    TENON_SKIP("in place", w.device.name() + " writes no update over its parameter");
  REQUIRE(made->renewals().size() == 1);
  CHECK(made->renewals()[0].output == "w.next");
  CHECK(made->renewals()[0].param == "w");
  CHECK_HAS(made->explain(), "in place 0 between launches, 1 of parameters, ");
  const auto buffer = [&](const Floats& numbers) {
    Buffer out = must(w.device.allocate(w.stream, numbers.size() * sizeof(float)));
    must(w.stream.upload(out.span(), numbers));
    return out;
  };
  const Buffer weights = buffer(Floats(256, 3)), slope = buffer(Floats(256, 2)), step = buffer({0.5f});
  for (int i = 0; i < 3; ++i)
    must(made->run(w.stream, {{"w", weights}, {"d", slope}, {"rate", step}, {"w.next", weights}}));
  Floats got(256);
  must(w.stream.download(got, weights.span()));
  must(w.stream.sync());
  CHECK(got == Floats(256, 0));
}

TEST_CASE(
    "in place: a parameter that another launch reads is renewed where it lies if that launch comes before") {
  for (const bool before : {true, false}) {
    World w;
    Graph g("order");
    const auto p = g.param("w", {f32, {64}}), d = g.input("d", {f32, {64}}),
               rate = g.input("rate", {f32, {}});
    if (before) g.output("y", g.named("read").neg(p));
    g.output("w.next", g.sgd(p, d, rate)[0]);
    if (!before) g.output("y", g.named("read").neg(p));
    const auto made = plan(must(passes::in_place(g)), w.device, node_by_node());
    SKIP_IF_UNSUPPORTED(made, "sgd");
    if (made->cut().groups.size() == 1) TENON_SKIP("launches", w.device.name() + " takes whole graphs only");
    if (!writes_in_place(*made))
      TENON_SKIP("in place", w.device.name() + " writes no update over its parameter");
    INFO(made->explain());
    CHECK(made->renewals().size() == (before ? 1 : 0));
    if (!before) CHECK_HAS(made->explain(), "over 'w': 'w' is read again by launch 1\n");
    Buffer old = must(w.device.allocate(w.stream, 256)), fresh = must(w.device.allocate(w.stream, 256)),
           slope = must(w.device.allocate(w.stream, 256)), step = must(w.device.allocate(w.stream, 4)),
           read = must(w.device.allocate(w.stream, 256));
    must(w.stream.upload(old.span(), Floats(64, 3)));
    must(w.stream.upload(slope.span(), Floats(64, 2)));
    must(w.stream.upload(step.span(), Floats(1, 0.5f)));
    const Buffer& next = before ? old : fresh;
    must(made->run(w.stream, {{"w", old}, {"d", slope}, {"rate", step}, {"w.next", next}, {"y", read}}));
    Floats renewed(64), seen(64);
    must(w.stream.download(renewed, next.span()));
    must(w.stream.download(seen, read.span()));
    must(w.stream.sync());
    CHECK(renewed == Floats(64, 2));
    CHECK(seen == Floats(64, -3));
  }
}

TEST_CASE(
    "in place: a step renews more parameters than an answer has bits, and one that another update reads is "
    "apart") {
  constexpr size_t count = 150, read_again = 100;  // its reader is the last update
  World w;
  Graph g("step");
  const auto rate = g.input("rate", {f32, {}});
  std::vector<Graph::Value> params;
  for (size_t i = 0; i < count; ++i) params.push_back(g.param("w" + std::to_string(i), {f32, {16}}));
  const auto slope = g.input("d", {f32, {16}});
  for (size_t i = 0; i < count; ++i)
    g.output("w" + std::to_string(i) + ".next",
             g.sgd(params[i], i + 1 < count ? slope : params[read_again], rate)[0]);
  passes::Rewritten work(g);  // the pass would leave that one out
  for (uint32_t node = 0; node < count; ++node)
    work.aliases.push_back({.node = node, .output = 0, .input = 0});
  const auto made = plan(work, w.device);
  SKIP_IF_UNSUPPORTED(made, "sgd");
  const std::string told = made->explain();
  if (device_under_test().plugin == "cpu") {
    CHECK(made->renewals().size() == count - 1);
    CHECK_HAS(told, "' over 'w100': " + w.device.name() + " does not write it in place there");
  } else if (!writes_in_place(*made)) {
    TENON_SKIP("in place", w.device.name() + " writes no update over its parameter");
  }
  std::vector<Buffer> buffers;
  std::map<std::string, tn_span> bound;
  const auto bind = [&](const std::string& name, const Floats& numbers) {
    buffers.push_back(must(w.device.allocate(w.stream, numbers.size() * sizeof(float))));
    must(w.stream.upload(buffers.back().span(), numbers));
    bound[name] = buffers.back().span();
  };
  for (size_t i = 0; i < count; ++i) bind("w" + std::to_string(i), Floats(16, static_cast<float>(i)));
  bind("d", Floats(16, 2));
  bind("rate", {0.5f});
  for (size_t i = 0; i < count; ++i) bind("w" + std::to_string(i) + ".next", Floats(16));
  for (const Plan::Renewal& renewal : made->renewals()) bound[renewal.output] = bound[renewal.param];
  std::vector<Binding> bindings;
  for (const auto& [name, span] : bound) bindings.push_back({name, span});
  must(made->run(w.stream, bindings));
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    Floats got(16);
    must(w.stream.download(got, bound["w" + std::to_string(i) + ".next"]));
    must(w.stream.sync());
    const auto before = static_cast<float>(i);
    wrong += got == Floats(16, before - (i + 1 < count ? 1.0F : 50.0F)) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("placements: convolutions run in the order that the layout pass chose, and compute the same") {
  World w;
  Graph g("images");
  auto x = g.input("x", {f32, {2, 8, 9, 9}});
  for (const char* name : {"c1", "c2"}) {
    const auto filter = g.param(std::string(name) + ".w", {f32, {8, 8, 3, 3}});
    x = g.relu(g.named(name).conv2d(x, filter, {{"pad", std::vector<int64_t>{1, 1, 1, 1}}}));
  }
  g.output("y", x);
  const passes::Rewritten work = must(passes::layout(g));
  REQUIRE(work.placements.size() > 2);
  const auto made = plan(work, w.device);
  SKIP_IF_UNSUPPORTED(made, "convolutions in nhwc");
  const Plan dense = must(plan(g, w.device));
  std::mt19937_64 numbers(7);
  const Named given{{"x", random_floats(2 * 8 * 81, numbers)},
                    {"c1.w", random_floats(8 * 72, numbers)},
                    {"c2.w", random_floats(8 * 72, numbers)}};
  const Floats expected = run(dense, w.device, w.stream, given).at("y"),
               found = run(*made, w.device, w.stream, given).at("y");
  double apart = 0;
  for (size_t i = 0; i < found.size(); ++i)
    apart = std::max(apart, std::fabs(static_cast<double>(expected[i]) - static_cast<double>(found[i])));
  CHECK(apart < 1e-4);
}
