// SPDX-License-Identifier: Apache-2.0
// Attention written as products with a softmax between: what becomes one node, and why elsewhere it does not.
#include "rewriting.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

using namespace tenon;
using namespace tenon::test;

namespace {

using Ints = std::vector<int64_t>;
using Value = GraphValue;

struct Spelling {
  DType dtype = f32;
  bool of_rank_3 = false, turned = false;  // k as [D, S]
  DType softmax = f32;                     // with casts around it where that is not dtype
  std::string scaled = "scale";            // by this op, or ""
  std::string masked = "";                 // "add", "where", or ""
  bool backward = true;
  std::vector<std::string> trained = {"q", "k", "v"};
};

constexpr int64_t heads = 3, queries = 4, keys = 5, depth = 2;

Ints shape(const Spelling& how, int64_t rows, int64_t columns) {
  return how.of_rank_3 ? Ints{heads, rows, columns} : Ints{1, heads, rows, columns};
}

Value scaled(Graph& g, const std::string& op, Value scores) {
  if (op == "scale") return g.named("scaled").scale(scores, 0.5);
  const Value half = g.constant({g.spec(scores).dtype, {}}, op == "div" ? 2 : 0.5);
  if (op == "div") return g.named("scaled").div(scores, half);
  if (op == "mul") return g.named("scaled").mul(half, scores);
  return scores;
}

Value masked(Graph& g, const std::string& op, Value scores) {
  const DType dtype = g.spec(scores).dtype;
  if (op == "add") return g.named("masked").add(scores, g.input("mask", {dtype, {queries, keys}}));
  if (op == "where")
    return g.named("masked").where(g.input("shown", {boolean, {queries, keys}}), scores,
                                   g.constant({dtype, {}}, -std::numeric_limits<double>::infinity()));
  return scores;
}

void gradients(Graph& g, const Spelling& how, Value y) {
  const Value wide = g.cast(y, f32);
  Ints axes;
  for (size_t i = 0; i < g.spec(y).dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const Value loss = g.named("loss").mean(g.square(wide), axes);
  std::vector<Value> of;
  for (const std::string& name : how.trained) of.push_back(g.value(index_of(g, name)));
  const auto made = g.gradients(loss, of);
  REQUIRE_MESSAGE(made.ok(), made.message());
  for (size_t i = 0; i < of.size(); ++i) g.output("d" + how.trained[i], (*made)[i]);
}

// y = softmax(q · kᵀ · 0.5 + mask) · v
Graph spelled(const Spelling& how = {}) {
  Graph g("spelled");
  const Value q = g.param("q", {how.dtype, shape(how, queries, depth)});
  const Value k = g.param("k", {how.dtype, how.turned ? shape(how, depth, keys) : shape(how, keys, depth)});
  const Value v = g.param("v", {how.dtype, shape(how, keys, depth)});
  Value scores = g.named("scores").matmul(q, k, {{"transpose_b", int64_t{!how.turned}}});
  scores = masked(g, how.masked, scaled(g, how.scaled, scores));
  if (how.softmax != how.dtype) scores = g.named("wide").cast(scores, how.softmax);
  Value shares = g.named("shares").softmax(scores);
  if (how.softmax != how.dtype) shares = g.named("narrow").cast(shares, how.dtype);
  const Value y = g.named("y").matmul(shares, v);
  g.output("y", y);
  if (how.backward) gradients(g, how, y);
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}

const Graph::Node& node_of(const Graph& graph, Op op) {
  REQUIRE_MESSAGE(count(graph, op) == 1, graph.text());
  return *std::find_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const auto& node) { return node.op == op; });
}

// A graph that keeps its softmax, and whose line says why.
void stays(const Graph& graph, const std::string& why, const passes::AttentionOptions& options = {}) {
  CAPTURE(graph.text());
  const passes::Rewritten work = done(passes::attention(graph, options));
  CHECK(work.graph.text() == graph.text());
  const std::string line = told(work, "y");
  CHECK(
      line.starts_with("- attention: y: softmax 'shares' and the products around it become one attention: "));
  CHECK_MESSAGE(line.find(why) != std::string::npos, line);
}

}  // namespace

TEST_CASE("attention: products with a softmax between are one node, and their way back another") {
  for (const char* scale : {"scale", "mul", "div"}) {
    CAPTURE(scale);
    const passes::Rewritten work = done(passes::attention(spelled({.scaled = scale})));
    const Graph& g = work.graph;
    CHECK(count(g, Op::softmax) + count(g, Op::softmax_grad) + count(g, Op::matmul) == 0);
    const Graph::Node& forward = node_of(g, Op::attention);
    CHECK(std::get<double>(forward.attributes[1].value) == 0.5);
    CHECK(std::get<int64_t>(forward.attributes[0].value) == 0);
    const Graph::Node& back = node_of(g, Op::attention_grad);
    CHECK(back.inputs[4] == forward.outputs[0]);
    CHECK(back.inputs[5] == forward.outputs[1]);
    for (size_t i = 0; i < 3; ++i) CHECK(reads(g, "y", i) == (i == 0 ? "q" : i == 1 ? "k" : "v"));
    CHECK(output(g, "y") == "y");
    CHECK(told(work, "y") ==
          "+ attention: y: softmax 'shares' and the products around it become one attention, their way back "
          "one "
          "attention_grad: 240 B of scores are never in memory\n");
  }
}

TEST_CASE("attention: gradients keep their names, so outputs are found where they were") {
  const Graph before = spelled();
  const passes::Rewritten work = done(passes::attention(before));
  for (const char* name : {"dq", "dk", "dv"}) CHECK(output(work.graph, name) == output(before, name));
  for (const Graph::Output& one : before.outputs()) {
    CHECK(work.values[one.value].index != TN_ABSENT);
    CHECK(work.graph.spec(work.values[one.value]).dims == before.values()[one.value].spec.dims);
  }
  CHECK(work.values[index_of(before, "scores")].index == TN_ABSENT);
}

TEST_CASE("attention: without a scale it is 1, and without a way back there is none") {
  const Graph g = done(passes::attention(spelled({.scaled = "", .backward = false}))).graph;
  CHECK(std::get<double>(node_of(g, Op::attention).attributes[1].value) == 1);
  CHECK(count(g, Op::attention_grad) == 0);
}

TEST_CASE("attention: rank 3 gets a dim of 1 in front and loses it again, and k that lies turned is turned") {
  for (const bool turned : {false, true}) {
    CAPTURE(turned);
    const Graph before = spelled({.of_rank_3 = true, .turned = turned});
    const Graph g = done(passes::attention(before)).graph;
    const Graph::Node& forward = node_of(g, Op::attention);
    CHECK(g.values()[forward.inputs[0]].spec.dims == Ints{1, heads, queries, depth});
    CHECK(g.values()[forward.inputs[1]].spec.dims == Ints{1, heads, keys, depth});
    CHECK(spec(g, "y").dims == Ints{heads, queries, depth});
    CHECK(count(g, Op::transpose) == (turned ? 2u : 0u));
    for (const char* name : {"dq", "dk", "dv"})
      CHECK(spec(g, output(g, name)).dims == spec(before, output(before, name)).dims);
  }
}

TEST_CASE("attention: only what is trained has a gradient to be found") {
  for (const std::vector<std::string>& trained :
       std::vector<std::vector<std::string>>{{"v"}, {"q"}, {"k"}, {"q", "v"}}) {
    const Graph g = done(passes::attention(spelled({.trained = trained}))).graph;
    CHECK(count(g, Op::attention_grad) == 1);
    for (const std::string& name : trained) CHECK(output(g, "d" + name) != "none");
  }
}

TEST_CASE("attention: casts around an f32 softmax of halves go, too") {
  for (const DType dtype : {f16, bf16}) {
    const Graph g = done(passes::attention(spelled({.dtype = dtype}))).graph;
    CHECK(g.values()[node_of(g, Op::attention).outputs[0]].spec.dtype == dtype);
    CHECK(count(g, Op::cast) == 2);  // of the loss, and back
  }
}

TEST_CASE("attention: a mask has the scores' dims and the type of q, and is made once for all who read it") {
  Graph g;
  const Value shown = g.input("shown", {boolean, {queries, keys}});
  Value x = g.input("x", {f32, {1, heads, queries, depth}});
  for (int i = 0; i < 2; ++i) {
    const Value k = g.param("k" + std::to_string(i), {f32, {1, heads, keys, depth}});
    const Value scores =
        g.where(shown, g.matmul(x, k, {{"transpose_b", int64_t{1}}}), g.constant({f32, {}}, -1e9));
    x = g.matmul(g.softmax(scores), k);
  }
  g.output("y", x);
  const Graph after = done(passes::attention(g)).graph;
  CHECK(count(after, Op::attention) == 2);
  CHECK(count(after, Op::where) == 1);
  CHECK(spec(after, "shown.whole").dims == Ints{1, heads, queries, keys});
  CHECK(after.values()[index_of(after, "shown.whole")].users.size() == 2);
}

TEST_CASE("attention: what is added is a mask, and its gradient keeps the scores") {
  const Graph g = done(passes::attention(spelled({.masked = "add"}))).graph;
  CHECK(node_of(g, Op::attention).inputs.size() == 4);
  CHECK(node_of(g, Op::attention_grad).inputs.size() == 7);

  Graph trained;
  const Value q = trained.param("q", {f32, {1, heads, queries, depth}}),
              bias = trained.param("bias", {f32, {queries, keys}});
  const Value scores = trained.add(
      trained.matmul(q, trained.param("k", {f32, {1, heads, keys, depth}}), {{"transpose_b", int64_t{1}}}),
      bias);
  const Value y = trained.named("y").matmul(trained.named("shares").softmax(scores),
                                            trained.param("v", {f32, {1, heads, keys, depth}}));
  const auto made = trained.gradients(trained.mean(y, {0, 1, 2, 3}), {q, bias});
  REQUIRE(made.ok());
  trained.output("dq", (*made)[0]);
  trained.output("dbias", (*made)[1]);
  stays(trained, "is read by sum");
}

TEST_CASE(
    "attention: an f32 mask beside halves is taken where they hold it, and keeps the products where not") {
  const auto with = [](DType half, const std::function<Value(Graph&)>& mask) {
    Graph g;
    const auto rows = [&](const char* name, int64_t count) {
      return g.input(name, {half, {1, heads, count, depth}});
    };
    const Value scores = g.matmul(rows("q", queries), rows("k", keys), {{"transpose_b", int64_t{1}}});
    const Value shares = g.named("shares").softmax(g.add(g.cast(scores, f32), mask(g)));
    g.output("y", g.named("y").matmul(g.cast(shares, half), rows("v", keys)));
    return g;
  };
  const auto number = [](Graph& g, double value) { return g.constant({f32, {}}, value); };
  const auto shown = [](Graph& g) { return g.input("shown", {boolean, {queries, keys}}); };
  const auto numbers = [](Graph& g, float first) {
    std::array<float, keys> all{first, -std::numeric_limits<float>::infinity(), -1e9F, -0.5F, 0};
    return g.constant("mask", {f32, {keys}}, std::as_bytes(std::span(all)));
  };
  for (const DType half : {f16, bf16}) {
    CAPTURE(name(half));
    for (const std::function<Value(Graph&)>& held : std::vector<std::function<Value(Graph&)>>{
             [&](Graph& g) {
               return g.cast(g.input("mask", {half, {queries, keys}}), f32);
             },
             [&](Graph& g) { return g.where(shown(g), number(g, 0), number(g, -1e9)); },
             [&](Graph& g) {
               return g.broadcast_to(number(g, -3.5), {queries, keys});
             },
             [&](Graph& g) { return numbers(g, 1.5F); }}) {
      const Graph after = done(passes::attention(with(half, held))).graph;
      CHECK(count(after, Op::attention) == 1);
      CHECK(after.values()[node_of(after, Op::attention).inputs[3]].spec.dtype == half);
    }
    const std::string to(name(half));
    stays(with(half,
               [](Graph& g) {
                 return g.input("mask", {f32, {queries, keys}});
               }),
          "mask 'mask' would be rounded to " + to);
    stays(with(half, [&](Graph& g) { return numbers(g, 0.1F); }), "mask 'mask' would be rounded to " + to);
    stays(with(half,
               [&](Graph& g) { return g.named("mask").where(shown(g), number(g, 0.1), number(g, -1e9)); }),
          "mask 'mask' would be rounded to " + to);
  }
}

TEST_CASE("attention: scores that somebody sees, thins, bends or scales with their mask stay") {
  const auto with = [](const std::function<Value(Graph&, Value)>& before,
                       const std::function<Value(Graph&, Value)>& after) {
    Graph g;
    const Value q = g.input("q", {f32, {1, heads, queries, depth}}),
                k = g.input("k", {f32, {1, heads, keys, depth}});
    const Value scores = before(g, g.named("scores").matmul(q, k, {{"transpose_b", int64_t{1}}}));
    const Value shares = after(g, g.named("shares").softmax(scores));
    g.output("y", g.named("y").matmul(shares, g.input("v", {f32, {1, heads, keys, depth}})));
    return g;
  };
  const auto same = [](Graph&, Value value) { return value; };
  const auto mask = [](Graph& g, const char* name) { return g.input(name, {f32, {queries, keys}}); };
  CHECK(done(passes::attention(with(same, same))).graph.nodes().size() == 1);
  stays(with(same,
             [](Graph& g, Value p) {
               g.output("seen", p);
               return p;
             }),
        "'shares' is an output of the graph");
  stays(with(same,
             [](Graph& g, Value p) {
               g.output("sum", g.sum(p, {3}));
               return p;
             }),
        "'shares' is read by sum");
  stays(with(same,
             [](Graph& g, Value p) {
               const Value seed = g.input("seed", {u64, {}});
               return g.named("thinned").dropout(p, seed, seed, {{"rate", 0.5}});
             }),
        "dropout 'thinned' thins the shares, and attention does not");
  stays(with([](Graph& g, Value s) { return g.named("bent").tanh(s); }, same),
        "tanh 'bent' stands between the scores and softmax");
  stays(with([&](Graph& g, Value s) { return g.scale(g.add(s, mask(g, "m")), 0.5); }, same),
        "the mask is scaled, too");
  stays(with([&](Graph& g, Value s) { return g.add(g.add(s, mask(g, "m")), mask(g, "n")); }, same),
        "there are two masks");
  stays(with(
            [&](Graph& g, Value s) {
              return g.named("floored").where(g.input("shown", {boolean, {queries, keys}}), s,
                                              g.constant({f32, {}}, -10));
            },
            same),
        "where 'floored' does not hide scores by -1e9 or less");
}

TEST_CASE("attention: heads and depths are one, ranks 3 and 4") {
  const auto of = [](const Ints& q, const Ints& k, const Ints& v) {
    Graph g;
    const Value scores =
        g.matmul(g.input("q", {f32, q}), g.input("k", {f32, k}), {{"transpose_b", int64_t{1}}});
    g.output("y", g.named("y").matmul(g.named("shares").softmax(scores), g.input("v", {f32, v})));
    return g;
  };
  stays(of({1, 4, 3, 2}, {1, 1, 5, 2}, {1, 4, 5, 2}),
        "'k' has other dims than 'q' asks for: heads and depths are one");
  stays(of({1, 4, 3, 2}, {1, 4, 5, 2}, {1, 4, 5, 7}),
        "'v' has other dims than 'q' asks for: heads and depths are one");
  stays(of({3, 2}, {5, 2}, {5, 2}), "'q' has rank 2, and attention is of rank 3 or 4");
}

TEST_CASE("attention: what the device refuses and what is spoken of by name stay") {
  const auto refusing = [](Op op) {
    return [op](const Fragment& fragment) -> Result<Support> {
      const bool is_it = fragment.abi().nodes[0].op == static_cast<uint32_t>(op);
      Support out{.verdict = is_it ? Verdict::no : Verdict::native};
      out.reason = "no such thing here";
      return out;
    };
  };
  stays(spelled(), "the device has no such attention: no such thing here",
        {.supports = refusing(Op::attention)});
  stays(spelled(), "the device has no such attention_grad: no such thing here",
        {.supports = refusing(Op::attention_grad)});
  CHECK(
      count(done(passes::attention(spelled({.backward = false}), {.supports = refusing(Op::attention_grad)}))
                .graph,
            Op::attention) == 1);
  stays(spelled(), "'scaled' is spoken of by name",
        {.kept = [](std::string_view made) { return made == "scaled"; }});
}

TEST_CASE("attention: where the device predicts that it takes as long as the products, they stay") {
  size_t questions = 0;
  double attention_ns = 0;
  const passes::AttentionOptions predicted{.supports = [&](const Fragment& fragment) -> Result<Support> {
    ++questions;
    const uint32_t op = fragment.abi().nodes[0].op;
    const bool is_it =
        op == static_cast<uint32_t>(Op::attention) || op == static_cast<uint32_t>(Op::attention_grad);
    return Support{.verdict = Verdict::native, .cost_ns = is_it ? attention_ns : 1000};
  }};
  attention_ns = 4000;  // eight products and softmaxes, two attentions
  stays(spelled(), "the device predicts 8.0 µs for it, and 8.0 µs for the products and softmaxes", predicted);
  attention_ns = 3999;
  CHECK(count(done(passes::attention(spelled(), predicted)).graph, Op::attention) == 1);
  attention_ns = 0;  // nothing is predicted
  CHECK(count(done(passes::attention(spelled(), predicted)).graph, Op::attention) == 1);

  Graph layers;
  Value x = layers.input("x", {f32, {1, heads, queries, depth}});
  for (int i = 0; i < 5; ++i) {
    const Value k = layers.param("k" + std::to_string(i), {f32, {1, heads, keys, depth}});
    x = layers.matmul(layers.softmax(layers.matmul(x, k, {{"transpose_b", int64_t{1}}})), k);
  }
  layers.output("y", x);
  questions = 0;
  attention_ns = 1;
  CHECK(count(done(passes::attention(layers, predicted)).graph, Op::attention) == 5);
  CHECK(questions == 4);
}

TEST_CASE("attention: a softmax that no product reads is nobody's attention, and that is told") {
  Graph g;
  g.output("p", g.softmax(g.matmul(g.input("x", {f32, {4, 4}}), g.input("w", {f32, {4, 4}}))));
  const passes::Rewritten work = done(passes::attention(g));
  CHECK(work.graph.text() == g.text());
  CHECK(passes::explain(work.notes) == "- attention: products with a softmax between: there are none\n");

  Graph turned;  // the shares of a square are turned before softmax takes them
  const Value s = turned.matmul(turned.input("x", {f32, {1, 4, 4}}), turned.input("w", {f32, {1, 4, 4}}));
  turned.output("y", turned.matmul(turned.softmax(turned.transpose(s, {0, 2, 1})),
                                   turned.input("v", {f32, {1, 4, 4}})));
  CHECK(done(passes::attention(turned)).graph.text() == turned.text());
}

TEST_CASE("attention: twice is as once") {
  const Graph once = done(passes::attention(spelled({.masked = "where"}))).graph;
  CHECK(done(passes::attention(once)).graph.text() == once.text());
}

TEST_CASE("attention: after mixed precision it computes in halves, before padding it is whole") {
  const passes::Rewritten work = done(passes::run(spelled(), {.amp = passes::AmpOptions{.half = bf16},
                                                              .attention = passes::AttentionOptions{},
                                                              .pad = passes::PadOptions{}}));
  const Graph::Node& forward = node_of(work.graph, Op::attention);
  CHECK(work.graph.values()[forward.inputs[0]].spec.dtype == bf16);
  CHECK(count(work.graph, Op::attention_grad) == 1);
  CHECK(count(work.graph, Op::softmax) + count(work.graph, Op::matmul) == 0);
}
