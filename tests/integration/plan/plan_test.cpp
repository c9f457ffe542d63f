// SPDX-License-Identifier: Apache-2.0
// A plan computes its graph, says what it did, and refuses what is not bound as it must be.
#include "integration/plan/world.hpp"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

// y = relu(x · scale + b), m = max over rows of y.
Graph layer() {
  Graph g("layer");
  const auto x = g.input("x", {f32, {4, 8}}), b = g.param("b", {f32, {8}});
  const auto y = g.relu(g.add(g.scale(x, 2), b));
  g.output("y", y);
  g.output("m", g.reduce_max(g.neg(y), {1}));
  return g;
}

}  // namespace

TEST_CASE("plan: computes what the host computes") {
  World w;
  const Plan made = must(plan(layer(), w.device));
  std::mt19937_64 numbers(1);
  const Named given{{"x", random_floats(32, numbers)}, {"b", random_floats(8, numbers)}};
  const Named out = run(made, w.device, w.stream, given);
  for (size_t row = 0; row < 4; ++row) {
    float most = -INFINITY;
    for (size_t i = 0; i < 8; ++i) {
      const float y = std::max(given.at("x")[row * 8 + i] * 2 + given.at("b")[i], 0.0f);
      CHECK(out.at("y")[row * 8 + i] == y);
      most = std::max(most, -y);
    }
    CHECK(out.at("m")[row] == most);
  }
}

TEST_CASE("plan: explains its cut, its engines and its memory") {
  World w;
  const Plan made = must(plan(layer(), w.device));
  const std::string text = made.explain();
  CHECK_HAS(text, w.device.name() + ": 5 nodes in ");
  CHECK_HAS(text, "engine   ");
  CHECK_HAS(text, "memory   " + std::to_string(made.memory_bytes()) + " bytes between launches");
}

TEST_CASE("plan: values that do not live at once share memory") {
  World w;
  Graph g("chain");
  auto value = g.input("x", {f32, {1 << 10}});
  FusionOptions none;
  none.elementwise = false;
  for (int i = 0; i < 10; ++i) value = g.neg(value);
  g.output("y", value);
  const Plan made = must(plan(g, w.device, {.fusion = none}));
  if (made.cut().groups.size() == 1) TENON_SKIP("launches", w.device.name() + " takes whole graphs only");
  CHECK(made.memory_bytes() < made.memory_bytes_without_reuse() / 3);
  const Named out = run(made, w.device, w.stream, {{"x", Floats(1 << 10, 3)}});
  CHECK(out.at("y") == Floats(1 << 10, 3));
}

TEST_CASE("plan: runs in flight on two streams do not disturb each other") {
  World w;
  const Plan made = must(plan(layer(), w.device));
  auto other = w.device.stream();
  if (!other.ok()) TENON_SKIP("streams", std::string(other.message()));
  std::mt19937_64 numbers(2);
  for (int round = 0; round < 10; ++round) {
    const Named a{{"x", random_floats(32, numbers)}, {"b", random_floats(8, numbers)}};
    const Named b{{"x", random_floats(32, numbers)}, {"b", random_floats(8, numbers)}};
    const Named first = run(made, w.device, w.stream, a), second = run(made, w.device, *other, b);
    CHECK(run(made, w.device, *other, a) == first);
    CHECK(run(made, w.device, w.stream, b) == second);
  }
}

TEST_CASE("plan: a binding that is missing, unknown, twice there or of another size is told by name") {
  World w;
  const Plan made = must(plan(layer(), w.device));
  const Buffer buffer = must(w.device.allocate(w.stream, 128));
  const tn_span x = buffer.span(), b = must(buffer.slice(0, 32)), m = must(buffer.slice(0, 16));
  const auto says = [&](std::initializer_list<Binding> bindings, const char* words) {
    const Status status = made.run(w.stream, bindings);
    CHECK(status.code() == TN_INVALID);
    CHECK_HAS(std::string(status.message()), words);
  };
  says({{"x", x}, {"b", b}, {"y", x}}, "plan of 'layer': 'm' is not bound");
  says({{"x", x}, {"b", b}, {"y", x}, {"n", m}}, "nothing is called 'n'");
  says({{"x", x}, {"x", x}}, "'x' is bound twice");
  says({{"x", b}}, "'x' has 128 bytes, it is bound to 32");
  says({{"x", x, i32}}, "'x' is f32, and its numbers here are i32");
}

TEST_CASE("plan: outputs that overlap an input or each other are refused, inputs may lie in one place") {
  World w;
  Graph g("two");
  const auto a = g.input("a", {f32, {32}}), b = g.input("b", {f32, {32}});
  g.output("sum", g.add(a, b));
  g.output("product", g.mul(a, b));
  const Plan made = must(plan(g, w.device));
  const Buffer buffer = must(w.device.allocate(w.stream, 1024)),
               other = must(w.device.allocate(w.stream, 128));
  const auto at = [&](uint64_t offset) { return must(buffer.slice(offset, 128)); };
  const auto says = [&](const tn_span& sum, const tn_span& product, const char* words) {
    const Status status =
        made.run(w.stream, {{"a", at(0)}, {"b", at(256)}, {"sum", sum}, {"product", product}});
    CHECK(status.code() == TN_INVALID);
    CHECK_HAS(std::string(status.message()), words);
  };
  says(at(0), other, "'sum' and 'a' are bound to memory that overlaps");
  says(at(64), other, "'sum' and 'a' are bound to memory that overlaps");
  says(at(192), other, "'b' and 'sum' are bound to memory that overlaps");
  says(at(512), at(576), "'product' and 'sum' are bound to memory that overlaps");
  must(w.stream.fill(buffer, 0));
  must(made.run(w.stream, {{"a", at(0)}, {"b", at(0)}, {"sum", at(128)}, {"product", at(256)}}));
  must(w.stream.sync());
}

TEST_CASE("plan: a stream or memory of another device is refused by name") {
  Runtime runtime = open_with_other();
  Device here = target(runtime);
  auto there = runtime.device(other_plugin());
  if (there.code() == TN_NOT_FOUND) TENON_SKIP("two plugins", std::string(there.message()));
  Device far_device = must(std::move(there));
  Stream stream = must(here.stream()), far_stream = must(far_device.stream());
  Graph g("copy");
  g.output("y", g.neg(g.input("x", {f32, {32}})));
  const auto planned = plan(g, here);
  SKIP_IF_UNSUPPORTED(planned, "neg");
  const Plan made = *planned;
  const Buffer x = must(here.allocate(stream, 128)), y = must(here.allocate(stream, 128)),
               far = must(far_device.allocate(far_stream, 128));
  const auto says = [&](const Status& status, const std::string& words) {
    CHECK(status.code() == TN_INVALID);
    CHECK_HAS(std::string(status.message()), words);
    CHECK_HAS(std::string(status.message()), far_device.name());
  };
  says(made.run(stream, {{"x", far}, {"y", y}}), "plan: 'x' lies in memory of device");
  says(made.run(stream, {{"x", x}, {"y", far}}), "plan: 'y' lies in memory of device");
  says(made.run(far_stream, {{"x", x}, {"y", y}}), "plan of 'copy': it was made for device '" + here.name());
  says(stream.fill(far, 0), "fill: the destination lies in memory of device");
  FragmentBuilder f("neg");
  const auto in = f.input({f32, {32}});
  f.output(f.node(Op::neg, {in}, {f32, {32}}));
  const Kernel kernel = must(here.compile(must(f.build())));
  const tn_span spans[] = {x, y};
  says(kernel.launch(far_stream, spans), "a kernel of another device is launched on stream");
  must(stream.sync());
  must(far_stream.sync());
}

TEST_CASE("plan: a graph with a mistake, and an output called as an input, are refused") {
  World w;
  Graph wrong;
  wrong.add(wrong.input("a", {f32, {2}}), wrong.input("b", {f32, {3}}));
  CHECK(plan(wrong, w.device).code() == TN_INVALID);
  Graph twice;
  twice.output("x", twice.neg(twice.exp(twice.input("x", {f32, {2}}))));
  const auto made = plan(twice, w.device);
  REQUIRE_FALSE(made.ok());
  CHECK_HAS(std::string(made.message()), "x");
}

TEST_CASE("plan: an op that the device does not run is an error that names the node and the reason") {
  World w;
  Graph g;
  const auto x = g.input("x", {f64, {4, 4}});
  const auto recv = g.named("far").all_reduce(x, {{"comm", int64_t{0}}, {"reduce", std::string("sum")}});
  g.output("y", recv);
  const auto made = plan(g, w.device);
  REQUIRE_FALSE(made.ok());
  CHECK(made.code() == TN_UNSUPPORTED);
  CHECK_HAS(std::string(made.message()), "all_reduce 'far'");
}

TEST_CASE(
    "plan: on a timeline each launch is an event with the name of its op, or of its rule, and of what it "
    "makes") {
  World w;
  auto created = Timeline::create(w.device);
  SKIP_IF_UNSUPPORTED(created, "timestamps");
  Timeline timeline = must(std::move(created));
  Graph g("named");
  const auto x = g.input("x", {f32, {64, 32}});
  const auto turned = g.named("turned").transpose(x, {1, 0});
  const auto shares = g.named("shares").softmax(turned);
  g.output("y", g.named("last").neg(g.named("first").exp(shares)));
  const Plan made = must(plan(g, w.device, {.fusion = {.patterns = false}}));
  const Buffer in = must(w.device.allocate(w.stream, 64 * 32 * sizeof(float))),
               out = must(w.device.allocate(w.stream, 64 * 32 * sizeof(float)));
  must(w.stream.fill(in));
  for (int i = 0; i < 2; ++i) must(made.run(w.stream, {{"x", in}, {"y", out}}, timeline));
  must(made.run(w.stream, {{"x", in}, {"y", out}}));  // on none
  const Trace trace = timeline.take();
  const auto& groups = made.cut().groups;
  REQUIRE(trace.events.size() == 2 * groups.size());
  std::map<std::string, TraceKind> kinds;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    CHECK(trace.events[i].bytes == groups[i % groups.size()].bytes);
    kinds.emplace(trace.events[i].name, trace.events[i].kind);
  }
  if (groups.size() != 3) return;  // a device that takes the graph as one
  CHECK(kinds == std::map<std::string, TraceKind>{{"transpose turned", TraceKind::copy},
                                                  {"softmax shares", TraceKind::kernel},
                                                  {"elementwise last", TraceKind::kernel}});
}
