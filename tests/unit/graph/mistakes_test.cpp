// SPDX-License-Identifier: Apache-2.0
// Every mistake in building a graph is one message that names the node, the shapes and what would be right.
#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>

using namespace tenon;

namespace {

using Ints = Graph::Ints;

std::string told(const Graph& g) {
  const Status status = g.check();
  CHECK(status.code() == TN_INVALID);
  return std::string(status.message());
}

// What a graph of some leaves says after `build`.
std::string told_of(const std::function<void(Graph&)>& build) {
  Graph g;
  build(g);
  return told(g);
}

}  // namespace

TEST_CASE("mistakes: inner dims that differ are named with node and shapes") {
  Graph g;
  g.named("fc1").matmul(g.input("x", {bf16, {64, 1024}}), g.param("w", {bf16, {512, 4096}}));
  CHECK(told(g) == "matmul 'fc1' (bf16[64,1024], bf16[512,4096]): inner dims 1024 and 512 differ");
}

TEST_CASE("mistakes: types that clash are named with the remedy") {
  Graph g("net");
  g.named("t").add(g.input("x", {bf16, {4}}), g.input("y", {f32, {4}}));
  CHECK(
      told(g) ==
      "graph 'net': add 't' (bf16[4], f32[4]): input 0 is bf16 and input 1 is f32: they must be of one type, "
      "cast one of them");
}

TEST_CASE("mistakes: ranks that clash are named") {
  Graph g;
  g.named("c").conv2d(g.input("x", {f32, {3, 8, 8}}), g.param("w", {f32, {4, 3, 3, 3}}));
  CHECK(told(g) == "conv2d 'c' (f32[3,8,8], f32[4,3,3,3]): input 0 is [3,8,8], it must be four dims");
}

TEST_CASE("mistakes: shapes that do not broadcast are named") {
  Graph g;
  g.named("s").add(g.input("x", {f32, {2, 3}}), g.input("y", {f32, {4}}));
  CHECK(told(g) ==
        "add 's' (f32[2,3], f32[4]): [2,3] and [4] do not broadcast: dim 1 of the result would be 3 and 4");
}

TEST_CASE("mistakes: an op that is not in the table is named") {
  Graph g;
  g.node(static_cast<Op>(9999), {g.input("x", {f32, {2}})});
  CHECK(told(g) == "a node: op 9999 is not in ops.def");
}

TEST_CASE("mistakes: a value of nowhere and a value of another graph are told apart") {
  Graph g, other;
  const auto foreign = other.input("x", {f32, {2}});
  CHECK(told_of([&](Graph& own) { own.named("a").neg({}); }) ==
        "neg 'a' (_): input 0 is no value: pass what input, param, constant or a node gave");
  CHECK(told_of([&](Graph& own) { own.named("a").neg(foreign); }) ==
        "neg 'a' (_): input 0 is a value of another graph: pass what this graph gave");
  g.output("y", foreign);
  CHECK(told(g) == "output 'y': its value is not of this graph: pass what this graph gave");
}

TEST_CASE("mistakes: 2^40 elements are too many, wherever they come from") {
  CHECK(told_of([](Graph& g) {
          g.input("x", {u8, {1 << 20, 1 << 20}});
        }) == "input 'x': u8[1048576,1048576] has 1099511627776 elements, a tensor has fewer than 2^40");
  CHECK(told_of([](Graph& g) {
          g.named("y").broadcast_to(g.input("x", {u8, {1}}), {1 << 20, 1 << 20});
        }) ==
        "broadcast_to 'y' (u8[1]): its result u8[1048576,1048576] has 1099511627776 elements, a tensor has "
        "fewer than "
        "2^40");
  CHECK(told_of([](Graph& g) {
          g.input("x", {f32, {INT64_MAX, INT64_MAX}});
        }).find("more than 2^63 - 1 bytes") != std::string::npos);
  const int64_t large = INT64_MAX;
  CHECK(told_of([&](Graph& g) {
          g.pad(g.input("x", {u8, {1}}), {large}, {large});
        }).find("its result u8[") != std::string::npos);
  Graph below;
  below.input("x", {u8, {(int64_t{1} << 40) - 1}});
  CHECK(below.check().ok());
}

TEST_CASE("mistakes: names are unique and of few characters") {
  CHECK(told_of([](Graph& g) {
          g.input("x", {f32, {2}}), g.param("x", {f32, {3}});
        }) == "param 'x': the name 'x' is taken by input f32[2]: names are unique");
  CHECK(told_of([](Graph& g) {
          g.input("a b", {f32, {2}});
        }) == "input 'a b': the name 'a b' may hold letters, digits and any of \"_./-\" only");
  CHECK(told_of([](Graph& g) { g.input("", {f32, {2}}); }) == "input '': a name is empty");
  CHECK(told_of([](Graph& g) {
          g.named({"p", "q"}).neg(g.value(0));
        }).find("input 0 is no value") != std::string::npos);
  CHECK(told_of([](Graph& g) {
          const auto x = g.input("x", {f32, {2}});
          g.named({"p", "q"}).neg(x);
        }) == "neg 'p' (f32[2]): it is given 2 names, it has 1 output");
  CHECK(told_of([](Graph& g) {
          const auto x = g.input("x", {f32, {2, 3}});
          g.named({"p", "p"}).batch_norm_stats(x);
        }) == "batch_norm_stats 'p' (f32[2,3]): two of its outputs are called 'p'");
  CHECK(Graph("a b").check().message() ==
        "graph 'a b': its name: the name 'a b' may hold letters, digits and any of \"_./-\" only");
}

TEST_CASE("mistakes: attributes that are unknown, missing or of another kind are named") {
  CHECK(told_of([](Graph& g) {
          g.named("s").softmax(g.input("x", {f32, {2}}), {{"axes", 0}});
        }) == "softmax 's' (f32[2]): has no attribute 'axes' (did you mean 'axis'?); it takes axis");
  CHECK(told_of([](Graph& g) {
          g.named("s").cast(g.input("x", {f32, {2}}));
        }).find("'dtype' (dtype) is missing") != std::string::npos);
  CHECK(told_of([](Graph& g) {
          g.softmax(g.input("x", {f32, {2}}), {{"axis", 0.5}});
        }).find("is given as float") != std::string::npos);
}

TEST_CASE("mistakes: the number of inputs is told with what the op takes") {
  Graph g;
  const auto x = g.input("x", {f32, {2}});
  g.node(Op::add, {x, x, x});
  CHECK(told(g) == "add '1' (f32[2], f32[2], f32[2]): it is given 3 inputs, it takes 2");
}

TEST_CASE("mistakes: an output is computed, and one output once") {
  CHECK(told_of([](Graph& g) {
          g.output("y", g.input("x", {f32, {2}}));
        }) == "output 'y': it is the input 'x' itself: pass it through identity");
  const auto twice = [](const char* first, const char* second) {
    return told_of([&](Graph& g) {
      const auto x = g.input("x", {f32, {2}});
      const auto y = g.neg(x), z = g.neg(y);
      g.output(first, y);
      g.output(second, std::string(first) == second ? z : y);
    });
  };
  CHECK(twice("a", "b") == "output 'b': the value '1' is an output already: each value is one once");
  CHECK(twice("a", "a") == "output 'a': there is an output of this name already");
}

TEST_CASE("mistakes: an output is called as no leaf is, whichever comes first") {
  CHECK(told_of([](Graph& g) {
          g.output("w", g.neg(g.param("w", {f32, {2}})));
        }) == "output 'w': the param is called so: a run binds both by name, call it 'w.next' for one");
  CHECK(told_of([](Graph& g) {
          g.output("w", g.neg(g.input("x", {f32, {2}})));
          g.param("w", {f32, {2}});
        }) == "param 'w': an output is called so: a run binds both by name, give one of them another");
  Graph g;
  const std::array<std::byte, 1> byte{};
  g.output("y", g.named("z").neg(g.constant("c", {i8, {1}}, byte)));
  g.output("c", g.named("y").neg(g.value(0)));  // nobody binds a constant or what is computed
  CHECK_MESSAGE(g.check().ok(), g.check().message());
}

TEST_CASE("mistakes: a constant takes as many bytes as its shape says") {
  const std::array<std::byte, 3> bytes{};
  CHECK(told_of([&](Graph& g) {
          g.constant("c", {f32, {2}}, bytes);
        }) == "constant 'c': f32[2] takes 8 bytes, it is given 3");
}

TEST_CASE("mistakes: a gather needs to know how many ranks there are") {
  Graph g;
  const auto x = g.input("x", {f32, {6, 2}});
  g.communicator(0, 4);
  const auto all = g.all_gather(x, {{"comm", 0}});
  CHECK(g.spec(all).dims == std::vector<int64_t>{24, 2});
  g.named("r").reduce_scatter(x, {{"comm", 0}, {"reduce", "sum"}});
  CHECK(told(g) == "reduce_scatter 'r' (f32[6,2]): the first dim 6 is no multiple of the 4 ranks");
  CHECK(told_of([](Graph& h) {
          h.named("a").all_gather(h.input("x", {f32, {6}}), {{"comm", 3}});
        }) ==
        "all_gather 'a' (f32[6]): how many ranks communicator 3 has is not known: say it with "
        "communicator(3, ranks)");
}

TEST_CASE("mistakes: the first one is told, and everything after it is harmless") {
  Graph g;
  const auto x = g.input("x", {f32, {2, 3}});
  const auto bad = g.named("first").matmul(x, x);
  const std::string text = g.text();
  const auto [y, mean, inv] = g.layer_norm(bad, x, x);
  g.output("y", y);
  g.input("x", {f32, {1}});
  g.communicator(0, 0);
  g.node(static_cast<Op>(9999), {bad});
  CHECK(told(g).find("matmul 'first'") == 0);
  CHECK(g.text() == text);
  CHECK_FALSE(g.gradients(x, {x}).ok());
  CHECK_FALSE(g.fragment().ok());
}
