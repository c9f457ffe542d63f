// SPDX-License-Identifier: Apache-2.0
// The text form: what is written reads back as the same graph, and what is read is written as the same text.
#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace tenon;

namespace {

using Ints = Graph::Ints;

// The text of what `text` reads as.
std::string again(const std::string& text) {
  const auto read = Graph::parse(text);
  REQUIRE_MESSAGE(read.ok(), read.message());
  return (*read).text();
}

template <class T>
std::string constant(DType dtype, const std::vector<T>& values) {
  Graph g;
  g.constant("c", {dtype, {static_cast<int64_t>(values.size())}}, std::as_bytes(std::span(values)));
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  const std::string text = g.text();
  const auto read = Graph::parse(text);
  REQUIRE_MESSAGE(read.ok(), read.message());
  CHECK((*read).values()[0].constant == g.values()[0].constant);
  const size_t at = text.find("= ") + 2;
  return text.substr(at, text.find('\n', at) - at);
}

}  // namespace

TEST_CASE("text: a layer reads as it is written") {
  Graph g("mlp");
  const auto x = g.input("x", {bf16, {64, 1024}});
  const auto w = g.param("w", {bf16, {1024, 4096}});
  const auto y = g.named("y").relu(g.named("t").matmul(x, w, {{"transpose_b", 0}}));
  g.output("loss", g.named("loss").mean(y, {0, -1}));
  CHECK(g.text() == R"(tenon-graph 1 mlp
input %x: bf16[64,1024]
param %w: bf16[1024,4096]
%t: bf16[64,4096] = matmul(%x, %w)
%y: bf16[64,4096] = relu(%t)
%loss: bf16[] = mean(%y) {axes=[0,1]}
output loss = %loss
end
)");
  CHECK(again(g.text()) == g.text());
}

TEST_CASE("text: leaves, left-out values, communicators and nodes without outputs come back") {
  Graph g;
  g.communicator(1, 8);
  const auto x = g.input("x", {.dtype = f32, .dims = {2, 3}, .strides = {0, 1}, .alignment = 64});
  const auto w = g.param("w", {f32, {3}}), lr = g.input("lr", {f32, {}}), found = g.input("found", {f32, {}});
  const auto dw = g.sum(x, {0});
  const auto updated = g.named({"w2", "", "g2"}).sgd(w, dw, lr, {}, found, {});
  g.send(updated[0], {{"comm", 0}, {"peer", 1}});
  const auto late = g.input("late", {f32, {3}});
  g.output("sum", g.add(updated[2], g.all_reduce(g.convert_layout(late, "st\"\\\x01r"),
                                                 {{"comm", 1}, {"reduce", "max"}})));
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  CHECK(again(g.text()) == g.text());
  const auto read = Graph::parse(g.text());
  CHECK((*read).fragment()->fragment.identity() == g.fragment()->fragment.identity());
  CHECK((*read).values()[0].spec.strides == Ints{0, 1});
  CHECK((*read).values()[0].spec.alignment == 64);
}

TEST_CASE("text: few numbers are decimal, many and odd ones hex, all bit for bit") {
  CHECK(constant<float>(f32, {1, -0.0F, 0.1F, 1e30F}) == "[1.0, -0.0, 0.1, 1e+30]");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(constant<double>(f64, {infinity, -infinity, std::nan("")}) == "[inf, -inf, nan]");
  CHECK(constant<uint64_t>(f64, {0x7FF8000000000001}) == "0x010000000000f87f");
  CHECK(constant<int64_t>(i64, {INT64_MIN, INT64_MAX}) == "[-9223372036854775808, 9223372036854775807]");
  CHECK(constant<uint64_t>(u64, {UINT64_MAX}) == "0xffffffffffffffff");
  CHECK(constant<uint8_t>(boolean, {0, 1}) == "[0, 1]");
  CHECK(constant<uint8_t>(boolean, {2}) == "0x02");
  CHECK(constant<uint16_t>(bf16, {0x3F80, 0}) == "0x803f0000");
  CHECK(constant<uint8_t>(u8, std::vector<uint8_t>(17, 7)) == "0x0707070707070707070707070707070707");
  CHECK(constant<float>(f32, {}) == "[]");
}

TEST_CASE("text: attributes of every kind come back bit for bit") {
  Graph g;
  const auto x = g.input("x", {f32, {2, 3}});
  for (const double number : {0.1, -0.0, 1e300, 3.0, 5e-324}) g.scale(x, number, 0);
  g.pad(x, {1, 0}, {0, 1}, -std::numeric_limits<double>::infinity());
  g.cast(x, bf16);
  REQUIRE(g.check().ok());
  const auto read = Graph::parse(g.text());
  REQUIRE_MESSAGE(read.ok(), read.message());
  for (size_t i = 0; i < 5; ++i) {
    const auto bits = [&](const Graph& graph) {
      return std::bit_cast<uint64_t>(std::get<double>(graph.nodes()[i].attributes[1].value));
    };
    CHECK(bits(*read) == bits(g));
  }
  CHECK((*read).text() == g.text());
}

TEST_CASE("text: blanks, comments and line ends of either kind are free") {
  const std::string text =
      "# a graph\n\n  tenon-graph   1\r\n\tinput %x :f32[ 2,3 ] # two rows\r\n"
      "%y:f32[2,3]=neg( %x ){ }\noutput y=%y\nend # here\n\n#more";
  CHECK(again(text) == "tenon-graph 1\ninput %x: f32[2,3]\n%y: f32[2,3] = neg(%x)\noutput y = %y\nend\n");
}

TEST_CASE("text: every op of a graph of gradients comes back") {
  Graph g;
  const auto x = g.input("x", {f32, {2, 3, 8, 8}}), w = g.param("w", {f32, {4, 3, 3, 3}});
  const auto y = g.conv2d(x, w, {{"pad", Ints{1, 1, 1, 1}}});
  const auto z = g.gelu(g.max_pool(y, {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}}));
  const auto loss = g.mean(g.softmax(g.reshape(z, {2, -1})), {0, 1});
  const auto gradients = g.gradients(loss, {w});
  REQUIRE_MESSAGE(gradients.ok(), gradients.message());
  g.output("dw", (*gradients)[0]);
  CHECK(again(g.text()) == g.text());
}

TEST_CASE("text: a NaN is one, whatever its sign and payload") {
  const auto scaled = [](double by) {
    Graph g;
    g.output("y", g.scale(g.input("x", {f32, {2}}), by));
    return g;
  };
  const double nan = std::nan("");
  const Graph plain = scaled(nan), other = scaled(std::copysign(std::nan("7"), -1.0));
  CHECK(other.text() == plain.text());
  const auto read = Graph::parse(other.text());
  REQUIRE_MESSAGE(read.ok(), read.message());
  CHECK(other.fragment()->fragment.identity() == plain.fragment()->fragment.identity());
  CHECK((*read).fragment()->fragment.identity() == plain.fragment()->fragment.identity());
}
