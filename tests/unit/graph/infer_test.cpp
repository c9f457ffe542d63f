// SPDX-License-Identifier: Apache-2.0
// Inference gives the types and shapes that ops.def says, and refuses what breaks a rule.
#include "unit/graph/infer_examples.hpp"

#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using tenon::test::Example, tenon::test::examples;

namespace {

using Ints = Graph::Ints;

// "f32[2,3] bf16[4]": what an op gives to a graph's leaves.
std::string gives(Graph& g, const std::vector<Graph::Value>& values) {
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  std::string out;
  for (const Graph::Value value : values) {
    const TensorSpec& spec = g.spec(value);
    out += out.empty() ? "" : " ";
    if (value == Graph::Value{}) {
      out += "_";
      continue;
    }
    out += std::string(name(spec.dtype)) + "[";
    for (size_t i = 0; i < spec.dims.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(spec.dims[i]);
    out += "]";
  }
  return out;
}

std::string refused(Op op, const std::vector<TensorSpec>& inputs, Graph::Attributes attributes = {}) {
  Graph g;
  std::vector<Graph::Value> values;
  for (const TensorSpec& spec : inputs) values.push_back(g.input("i" + std::to_string(values.size()), spec));
  g.node(op, std::span(values), std::move(attributes));
  const Status status = g.check();
  return std::string(status.message());
}

}  // namespace

TEST_CASE("infer: types and shapes come out as ops.def says") {
  for (const Example& example : examples) {
    CAPTURE(name(example.op));
    Graph g;
    g.communicator(0, 2);
    std::vector<Graph::Value> values;
    for (const TensorSpec& spec : example.inputs)
      values.push_back(g.input("i" + std::to_string(values.size()), spec));
    CHECK(gives(g, g.node(example.op, std::span(values), example.attributes)) == example.gives);
  }
}

TEST_CASE("infer: each rule refuses what breaks it, in its own words") {
  const auto says = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  says(refused(Op::exp, {{i32, {2}}}), "input 0 is i32, it must be a float type");
  says(refused(Op::neg, {{boolean, {2}}}), "input 0 is bool, it must be a number, not bool");
  says(refused(Op::logical_not, {{f32, {2}}}), "input 0 is f32, it must be bool");
  says(refused(Op::where, {{f32, {2}}, {f32, {2}}, {f32, {2}}}), "input 0 is f32, it must be bool");
  says(refused(Op::dropout, {{f32, {2}}, {i64, {}}, {u64, {}}}, {{"rate", 0.5}}),
       "input 1 is i64, it must be u64");
  says(refused(Op::random_uniform, {{u64, {}}, {u64, {}}}, {{"dtype", i8}, {"shape", Ints{2}}}),
       "attribute 'dtype' is i8, it must be a float type");
  says(refused(Op::layer_norm, {{bf16, {2}}, {f16, {2}}, {f32, {2}}}),
       "input 1 is f16: parameters and statistics are f32 or of input 0's type bf16");
  says(refused(Op::cross_entropy, {{f32, {2, 3}}, {f32, {2}}}), "input 1 is f32, it must be an integer type");
  says(refused(Op::embedding, {{f32, {2}}, {f32, {2, 3}}}), "input 0 is f32, it must be an integer type");
  says(refused(Op::sgd, {{f32, {2}}, {f32, {2}}, {f16, {}}}), "input 2 is f16, it must be f32");
  says(refused(Op::sgd, {{f32, {2}}, {f32, {3}}, {f32, {}}}), "input 1 is [3], it must be [2]");
  says(refused(Op::sum, {{f32, {2}}}, {{"axes", Ints{1}}}), "axis 1 is outside rank 1");
  says(refused(Op::sum, {{f32, {2}}}, {{"axes", Ints{0, -1}}}), "axis -1 is named twice");
  says(refused(Op::argmax, {{f32, {2, 2}}}, {{"axes", Ints{0, 1}}}), "it takes one");
  says(refused(Op::matmul, {{f32, {2}}, {f32, {2, 2}}}), "input 0 has rank 1, it must have 2 or more");
  says(refused(Op::conv2d, {{f32, {1, 3, 8, 8}}, {f32, {4, 2, 3, 3}}}), "has 3 channels");
  says(refused(Op::conv2d, {{f32, {1, 3, 2, 2}}, {f32, {4, 3, 3, 3}}}), "does not fit once");
  says(refused(Op::conv2d, {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 3, 3}}}, {{"groups", 3}}),
       "groups 3 do not divide the 4");
  says(refused(Op::max_pool, {{f32, {1, 3, 8, 8}}}, {{"kernel", Ints{2, 2}}, {"stride", Ints{0, 1}}}),
       "stride and dilation are 1 or more");
  says(refused(Op::batch_norm_stats, {{f32, {4}}}), "it must be [N, C, …]");
  says(refused(Op::layer_norm, {{f32, {2}}, {f32, {2}}, {f32, {2}}}, {{"axes", 2}}),
       "it normalises the last 1 to 1");
  says(refused(Op::reshape, {{f32, {2, 3}}}, {{"shape", Ints{4}}}), "[2,3] has 6 elements and [4] has 4");
  says(refused(Op::reshape, {{f32, {2, 3}}}, {{"shape", Ints{4, -1}}}),
       "leaves no whole number for the -1 of [4,-1]");
  says(refused(Op::transpose, {{f32, {2, 3}}}, {{"order", Ints{0, 0}}}),
       "is no permutation of the dims of [2,3]");
  says(refused(Op::concat, {{f32, {2, 3}}, {f32, {3, 3}}}, {{"axis", 1}}),
       "input 1 is [3,3], it must be [2,3]");
  says(refused(Op::slice, {{f32, {4}}}, {{"begin", Ints{0}}, {"end", Ints{5}}, {"step", Ints{1}}}),
       "is not inside");
  says(refused(Op::pad, {{f32, {4}}}, {{"before", Ints{-1}}, {"after", Ints{0}}}), "give 0 or more");
  says(refused(Op::broadcast_to, {{f32, {4}}}, {{"shape", Ints{2}}}), "[4] cannot be repeated to [2]");
  says(refused(Op::one_hot, {{u8, {4}}}, {{"classes", 0}, {"dtype", f32}}), "classes 0: give 1 or more");
  says(refused(Op::attention, {{f32, {1, 2, 3, 4}}, {f32, {1, 2, 3, 5}}, {f32, {1, 2, 3, 4}}},
               {{"scale", 1.0}}),
       "input 1 is [1,2,3,5], it must be [1,2,3,4]");
  const TensorSpec heads{f32, {1, 2, 3, 4}}, w{f16, {4}}, scalar{f32, {}};
  says(refused(Op::attention, {heads, heads, heads, {f32, {2, 1}}}, {{"scale", 1.0}}),
       "mask [2,1] does not broadcast to [1,2,3,3]");
  says(refused(Op::attention, {heads, heads, heads, {f32, {1, 1, 1, 1, 1}}}, {{"scale", 1.0}}),
       "mask [1,1,1,1,1] does not broadcast to [1,2,3,3]");
  says(refused(Op::random_normal, {{u64, {1}}, {u64, {}}}, {{"dtype", f32}, {"shape", Ints{2}}}),
       "input 0 is [1], it must be []");
  says(refused(Op::momentum, {w, w, w, scalar}), "input 2 is f16, it must be f32");
  says(refused(Op::momentum, {w, w, {f32, {4}}, scalar, w}), "input 4 is f16, it must be f32");
}
