// SPDX-License-Identifier: Apache-2.0
// A FragmentBuilder gives the ABI's arrays, complete and sorted.
#include <tenon/fragment.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string>

using namespace tenon;

namespace {

Fragment add3(int64_t n) {
  FragmentBuilder f("add3");
  const auto a = f.input({f32, {n}}), b = f.input({f32, {n}}), c = f.input({f32, {n}});
  const auto t = f.node(Op::add, {a, b}, {f32, {n}});
  f.output(f.node(Op::add, {t, c}, {f32, {n}}));
  auto fragment = f.build();
  REQUIRE(fragment.ok());
  return std::move(fragment).take();
}

}  // namespace

TEST_CASE("fragment: two adds become two nodes over five tensors") {
  const Fragment fragment = add3(7);
  const tn_fragment& abi = fragment.abi();
  CHECK(abi.size == sizeof(tn_fragment));
  CHECK(abi.tensor_count == 5);
  CHECK(abi.node_count == 2);
  CHECK(abi.input_count == 3);
  CHECK(abi.output_count == 1);
  CHECK(std::string(abi.name) == "add3");
  CHECK(abi.nodes[0].op == TN_OP_add);
  CHECK(abi.nodes[1].inputs[0] == abi.nodes[0].outputs[0]);
  CHECK(abi.outputs[0] == abi.nodes[1].outputs[0]);
  CHECK(abi.tensors[0].dims[0] == 7);
  CHECK(abi.tensors[0].strides == nullptr);
  CHECK(std::memcmp(abi.identity, fragment.identity().data(), 32) == 0);
}

TEST_CASE("fragment: bindings are inputs, then outputs") {
  FragmentBuilder f;
  const auto x = f.input({bf16, {2, 3}});
  f.output(f.node(Op::cast, {x}, {f32, {2, 3}}, {{"dtype", f32}}));
  const auto fragment = f.build();
  REQUIRE(fragment.ok());
  REQUIRE(fragment->bindings().size() == 2);
  CHECK(fragment->bindings()[0].dtype == bf16);
  CHECK(fragment->bindings()[1].bytes() == 24);
  CHECK(fragment->abi().name == nullptr);
}

TEST_CASE("fragment: attributes of all kinds arrive, sorted, with defaults") {
  FragmentBuilder f;
  const auto x = f.input({f32, {1, 3, 8, 8}}), w = f.input({f32, {4, 3, 3, 3}});
  f.output(f.node(Op::conv2d, {x, w}, {f32, {1, 4, 8, 8}}, {{"pad", std::vector<int64_t>{1, 1, 1, 1}}}));
  const auto fragment = f.build();
  REQUIRE(fragment.ok());
  const tn_node& node = fragment->abi().nodes[0];
  REQUIRE(node.attribute_count == 4);
  const std::array<std::string, 4> names = {"dilation", "groups", "pad", "stride"};
  for (size_t i = 0; i < 4; ++i) CHECK(names[i] == node.attributes[i].name);
  CHECK(node.attributes[0].kind == TN_ATTRIBUTE_I64S);
  CHECK(node.attributes[1].kind == TN_ATTRIBUTE_I64);
  CHECK(node.attributes[1].i64 == 1);
  CHECK(node.attributes[2].count == 4);
  CHECK(static_cast<const int64_t*>(node.attributes[2].data)[3] == 1);
}

TEST_CASE("fragment: strings, floats and types keep their form") {
  FragmentBuilder f;
  const auto x = f.input({f32, {4}});
  const auto y = f.node(Op::all_reduce, {x}, {f32, {4}}, {{"comm", 0}, {"reduce", "sum"}});
  const auto z = f.node(Op::scale, {y}, {f32, {4}}, {{"scale", 0.5}});
  f.output(f.node(Op::cast, {z}, {f16, {4}}, {{"dtype", f16}}));
  const auto fragment = f.build();
  REQUIRE(fragment.ok());
  const tn_node* nodes = fragment->abi().nodes;
  CHECK(std::string(static_cast<const char*>(nodes[0].attributes[1].data), nodes[0].attributes[1].count) ==
        "sum");
  CHECK(nodes[1].attributes[1].f64 == 0.5);
  CHECK(nodes[2].attributes[0].kind == TN_ATTRIBUTE_DTYPE);
  CHECK(nodes[2].attributes[0].i64 == TN_DTYPE_f16);
}

TEST_CASE("fragment: constants are copied") {
  std::array<float, 3> values = {1, 2, 3};
  FragmentBuilder f;
  const auto x = f.input({f32, {3}});
  const auto c = f.constant({f32, {3}}, std::as_bytes(std::span(values)));
  f.output(f.node(Op::add, {x, c}, {f32, {3}}));
  const auto fragment = f.build();
  REQUIRE(fragment.ok());
  values[0] = 99;
  const tn_tensor& tensor = fragment->abi().tensors[1];
  CHECK(tensor.flags == TN_TENSOR_CONSTANT);
  CHECK(tensor.constant_bytes == 12);
  CHECK(static_cast<const float*>(tensor.constant)[0] == 1);
  CHECK(fragment->bindings().size() == 2);
}

TEST_CASE("fragment: a copy outlives builder and original") {
  std::optional<Fragment> copy;
  {
    const Fragment original = add3(3);
    copy = original;
  }
  CHECK(copy->abi().tensors[4].dims[0] == 3);
  CHECK(copy->name() == "add3");
}

TEST_CASE("fragment: rank 0, zero elements and broadcast inputs are legal") {
  FragmentBuilder f;
  const auto scalar = f.input({f32, {}}), none = f.input({f32, {0, 5}});
  const auto row = f.input({.dtype = f32, .dims = {4, 5}, .strides = {0, 1}});
  f.output(f.node(Op::neg, {scalar}, {f32, {}}));
  f.output(f.node(Op::neg, {none}, {f32, {0, 5}}));
  f.output(f.node(Op::neg, {row}, {f32, {4, 5}}));
  const auto fragment = f.build();
  REQUIRE(fragment.ok());
  CHECK(fragment->bindings()[0].elements() == 1);
  CHECK(fragment->bindings()[1].bytes() == 0);
  CHECK(fragment->bindings()[2].bytes() == 20);
  REQUIRE(fragment->abi().tensors[2].strides != nullptr);
  CHECK(fragment->abi().tensors[2].strides[0] == 0);
}

TEST_CASE("fragment: optional inputs and outputs can be left out") {
  FragmentBuilder f;
  const auto w = f.input({f32, {8}}), g = f.input({f32, {8}}), lr = f.input({f32, {}});
  const FragmentBuilder::Value absent;
  const std::array inputs = {w, g, lr, absent, absent, absent};
  const auto updated = f.node(Op::sgd, inputs, {{f32, {8}}, {.dtype = DType{}}, {f32, {8}}});
  f.output(updated[0]);
  f.output(updated[2]);
  const auto fragment = f.build();
  REQUIRE(fragment.ok());
  const tn_node& node = fragment->abi().nodes[0];
  CHECK(node.input_count == 3);
  CHECK(node.output_count == 3);
  CHECK(node.outputs[1] == TN_ABSENT);
  CHECK(updated[1].index == TN_ABSENT);
}

TEST_CASE("fragment: a node without outputs needs no fragment output") {
  FragmentBuilder f;
  const auto x = f.input({f32, {4}});
  const std::array inputs = {x};
  CHECK(f.node(Op::send, inputs, {}, {{"comm", 0}, {"peer", 1}}).empty());
  CHECK(f.build().ok());
}

TEST_CASE("fragment: aliases join outputs to inputs of one size") {
  FragmentBuilder f;
  const auto x = f.input({f32, {4}});
  f.output(f.node(Op::relu, {x}, {f32, {4}}));
  f.alias(0, 0);
  const auto fragment = f.build();
  REQUIRE(fragment.ok());
  REQUIRE(fragment->abi().alias_count == 1);
  CHECK(fragment->abi().aliases[0].input == 0);
  CHECK(fragment->abi().aliases[0].output == 0);
}

TEST_CASE("fragment: a builder that was not finished can be finished") {
  FragmentBuilder f;
  const auto x = f.input({f32, {4}});
  CHECK_FALSE(f.build().ok());
  f.output(f.node(Op::relu, {x}, {f32, {4}}));
  CHECK(f.build().ok());
  CHECK(f.build()->identity() == f.build()->identity());
}
