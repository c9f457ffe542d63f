// SPDX-License-Identifier: Apache-2.0
// op_rules_test.cpp: ops.def's rules as every plugin asks them.
// Invariant: each rule is seen to let the right node pass and to refuse a wrong one with its values.
#include "support/counted_new.hpp"

#include <tenon/author/fragment_builder.hpp>
#include <tenon/author/op_rules.hpp>

#include <doctest/doctest.h>

#include <functional>

using namespace tenon::author;
using tenon::test::allocations;

namespace {

constexpr uint32_t f16 = TN_DTYPE_f16, f32 = TN_DTYPE_f32, f64 = TN_DTYPE_f64, i32 = TN_DTYPE_i32,
                   i64 = TN_DTYPE_i64, u64 = TN_DTYPE_u64, boolean = TN_DTYPE_bool;

struct Operand {
  uint32_t dtype;
  std::vector<int64_t> dims;
};
const Operand absent{TN_DTYPE_NONE, {}};

using Attributes = std::function<void(FragmentBuilder::Node&)>;

// The verdict on a fragment of one node.
tenon::Status verdict(uint32_t op, const std::vector<Operand>& inputs, const std::vector<Operand>& outputs,
                      const Attributes& attributes = {}) {
  FragmentBuilder f;
  std::vector<uint32_t> in, out;
  for (const Operand& one : inputs)
    in.push_back(one.dtype == TN_DTYPE_NONE ? TN_ABSENT : f.input(one.dtype, one.dims));
  for (const Operand& one : outputs)
    out.push_back(one.dtype == TN_DTYPE_NONE ? TN_ABSENT : f.output(one.dtype, one.dims));
  FragmentBuilder::Node& node = f.node(op, in, out);
  if (attributes) attributes(node);
  const FragmentView view(f.fragment());
  return check_rules(view);
}

void passes(const tenon::Status& said) { CHECK_MESSAGE(said.ok(), said.message()); }
void is(int32_t code, const tenon::Status& said, std::string_view words) {
  CHECK(said.code() == code);
  CHECK_MESSAGE(said.message().find(words) != std::string_view::npos, said.message());
}
void malformed(const tenon::Status& said, std::string_view words) { is(TN_INVALID, said, words); }
void unsupported(const tenon::Status& said, std::string_view words) { is(TN_UNSUPPORTED, said, words); }

Attributes integers(std::initializer_list<std::pair<const char*, std::vector<int64_t>>> lists) {
  return [lists = std::vector(lists)](FragmentBuilder::Node& node) {
    for (const auto& [name, numbers] : lists) node.integers(name, numbers);
  };
}
Attributes over(std::vector<int64_t> axes, int64_t keepdims = 0) {
  return [=](FragmentBuilder::Node& node) { node.integers("axes", axes).integer("keepdims", keepdims); };
}
Attributes turned(int64_t a, int64_t b) {
  return [=](FragmentBuilder::Node& node) { node.integer("transpose_a", a).integer("transpose_b", b); };
}
Attributes number(const char* name, int64_t value) {
  return [=](FragmentBuilder::Node& node) { node.integer(name, value); };
}
Attributes window(std::vector<int64_t> pad, std::vector<int64_t> stride, std::vector<int64_t> dilation,
                  int64_t groups) {
  return [=](FragmentBuilder::Node& node) {
    node.integers("pad", pad)
        .integers("stride", stride)
        .integers("dilation", dilation)
        .integer("groups", groups);
  };
}
Attributes adam() {
  return [](FragmentBuilder::Node& node) {
    for (const char* const name : {"beta1", "beta2", "epsilon", "weight_decay"}) node.real(name, 0.5);
  };
}

}  // namespace

TEST_CASE("op rules: a node of an unknown op or a newer version is TN_UNSUPPORTED") {
  unsupported(verdict(60000, {{f32, {4}}}, {{f32, {4}}}),
              "node 0 (?): op 60000 is not in this plugin's ops.def");
  FragmentBuilder f;
  const uint32_t x = f.input(f32, {4}), y = f.output(f32, {4});
  f.node(TN_OP_neg, {x}, {y});
  tn_node node = f.fragment().nodes[0];
  node.version = 7;
  tn_fragment newer = f.fragment();
  newer.nodes = &node;
  unsupported(check_rules(FragmentView(newer)), "node 0 (neg): version 7 is newer than version 1");
}

TEST_CASE("op rules: a dtype that no op takes yet is TN_UNSUPPORTED") {
  unsupported(verdict(TN_OP_neg, {{TN_DTYPE_i4, {4}}}, {{TN_DTYPE_i4, {4}}}), "tensor 0 is i4");
}

TEST_CASE("op rules: an attribute is there, and of its kind") {
  malformed(verdict(TN_OP_sum, {{f32, {2, 3}}}, {{f32, {2}}}, integers({{"axes", {1}}})),
            "node 0 (sum): attribute 'keepdims' is missing");
  malformed(verdict(TN_OP_sum, {{f32, {2, 3}}}, {{f32, {2}}}, integers({{"axes", {1}}, {"keepdims", {0}}})),
            "attribute 'keepdims' is of kind 3, not 1");
}

TEST_CASE("op rules: every row of the attribute column is read") {
  size_t rows = 0;
  for (std::string_view column = "axes:ints; dtype:dtype; epsilon:float=1e-5; layout:string; tanh:int=0";
       !column.empty(); ++rows) {
    const AttributeRow row = next_attribute(column);
    const AttributeRow known[] = {{"axes", TN_ATTRIBUTE_I64S},
                                  {"dtype", TN_ATTRIBUTE_DTYPE},
                                  {"epsilon", TN_ATTRIBUTE_F64},
                                  {"layout", TN_ATTRIBUTE_STRING},
                                  {"tanh", TN_ATTRIBUTE_I64}};
    CHECK(row.name == known[rows].name);
    CHECK(row.kind == known[rows].kind);
  }
  CHECK(rows == 5);
}

TEST_CASE("op rules: dtypes are as the column says") {
  const std::vector<int64_t> d{3};
  malformed(verdict(TN_OP_exp, {{i32, d}}, {{i32, d}}), "takes one float type; it got i32 → i32");
  malformed(verdict(TN_OP_add, {{f32, d}, {f64, d}}, {{f32, d}}),
            "takes one type that is not bool; it got f32, f64");
  malformed(verdict(TN_OP_add, {{boolean, d}, {boolean, d}}, {{boolean, d}}), "one type that is not bool");
  malformed(verdict(TN_OP_less, {{f32, d}, {f32, d}}, {{f32, d}}), "one type and gives bool");
  malformed(verdict(TN_OP_logical_and, {{boolean, d}, {f32, d}}, {{boolean, d}}), "bool and gives bool");
  malformed(verdict(TN_OP_where, {{boolean, d}, {f32, d}, {f16, d}}, {{f32, d}}),
            "bool and twice the result's type");
  malformed(verdict(TN_OP_cast, {{f32, d}}, {{f64, d}}, [](auto& n) { n.dtype("dtype", f16); }),
            "attribute 'dtype'");
  malformed(verdict(TN_OP_argmax, {{f32, d}}, {{i32, {}}}, over({0})), "a number and gives i64");
  malformed(verdict(TN_OP_advance, {{f32, {}}}, {{f32, {}}}, number("by", 1)), "one integer type");
  passes(verdict(TN_OP_where, {{boolean, d}, {f32, d}, {f32, d}}, {{f32, d}}));
  passes(verdict(TN_OP_advance, {{u64, {}}}, {{u64, {}}}, number("by", 1)));
}

TEST_CASE("op rules: elementwise operands broadcast to the result, and to nothing larger") {
  passes(verdict(TN_OP_add, {{f32, {4, 1}}, {f32, {3}}}, {{f32, {4, 3}}}));
  passes(verdict(TN_OP_add, {{f32, {0, 1}}, {f32, {3}}}, {{f32, {0, 3}}}));
  malformed(verdict(TN_OP_add, {{f32, {4}}, {f32, {3}}}, {{f32, {4}}}),
            "[3] does not broadcast with the other inputs");
  malformed(verdict(TN_OP_add, {{f32, {1}}, {f32, {1}}}, {{f32, {5}}}), "output 0 is [5] and must be [1]");
  malformed(verdict(TN_OP_add, {{f32, {2}}, {f32, {2}}}, {{f32, {1, 2}}}),
            "output 0 is [1,2] and must be [2]");
}

TEST_CASE("op rules: a reduction's axes are inside the rank, each once") {
  passes(verdict(TN_OP_sum, {{f32, {2, 3, 4}}}, {{f32, {3}}}, over({0, -1})));
  passes(verdict(TN_OP_sum, {{f32, {2, 3}}}, {{f32, {2, 1}}}, over({1}, 1)));
  malformed(verdict(TN_OP_sum, {{f32, {2, 3}}}, {{f32, {2}}}, over({2})), "axis 2 is outside rank 2");
  malformed(verdict(TN_OP_sum, {{f32, {2, 3}}}, {{f32, {2}}}, over({INT64_MIN})), "is outside rank 2");
  malformed(verdict(TN_OP_sum, {{f32, {2, 3}}}, {{f32, {2}}}, over({1, -1})),
            "axis -1 of [1,-1] is named twice");
  malformed(verdict(TN_OP_argmax, {{f32, {2, 3}}}, {{i64, {}}}, over({0, 1})), "takes one axis, not 2");
}

TEST_CASE("op rules: a product's columns meet rows, and its batches broadcast") {
  passes(verdict(TN_OP_matmul, {{f32, {5, 1, 2, 3}}, {f32, {4, 7, 3}}}, {{f32, {5, 4, 2, 7}}}, turned(0, 1)));
  malformed(verdict(TN_OP_matmul, {{f32, {2, 3}}, {f32, {4, 7}}}, {{f32, {2, 7}}}, turned(0, 0)),
            "3 columns meet 4 rows");
  malformed(verdict(TN_OP_matmul, {{f32, {3}}, {f32, {3, 7}}}, {{f32, {7}}}, turned(0, 0)),
            "ranks of 2 and more");
  malformed(verdict(TN_OP_matmul, {{f32, {5, 2, 3}}, {f32, {4, 3, 7}}}, {{f32, {5, 2, 7}}}, turned(0, 0)),
            "does not broadcast");
}

TEST_CASE("op rules: movement says where every element goes") {
  const auto begin_end_step = [](std::vector<int64_t> b, std::vector<int64_t> e, std::vector<int64_t> s) {
    return integers({{"begin", b}, {"end", e}, {"step", s}});
  };
  const auto padded = [](std::vector<int64_t> before, std::vector<int64_t> after) {
    return [=](FragmentBuilder::Node& n) {
      n.integers("before", before).integers("after", after).real("value", 0);
    };
  };
  passes(verdict(TN_OP_reshape, {{f32, {4, 3}}}, {{f32, {2, 6}}}, integers({{"shape", {2, -1}}})));
  malformed(verdict(TN_OP_reshape, {{f32, {4, 3}}}, {{f32, {2, 6}}}, integers({{"shape", {6, 2}}})),
            "must be [6,2]");
  malformed(verdict(TN_OP_reshape, {{f32, {4, 3}}}, {{f32, {5}}}, integers({{"shape", {5}}})),
            "different counts");
  passes(verdict(TN_OP_transpose, {{f32, {4, 3}}}, {{f32, {3, 4}}}, integers({{"order", {1, 0}}})));
  for (const std::vector<int64_t>& order : {std::vector<int64_t>{1, 1}, {0}, {0, 2}, {0, -1}})
    malformed(verdict(TN_OP_transpose, {{f32, {4, 3}}}, {{f32, {3, 4}}}, integers({{"order", order}})),
              "no permutation");
  passes(verdict(TN_OP_concat, {{f32, {2, 3}}, {f32, {2, 0}}, {f32, {2, 4}}}, {{f32, {2, 7}}},
                 number("axis", -1)));
  malformed(verdict(TN_OP_concat, {{f32, {2, 3}}, {f32, {1, 3}}}, {{f32, {2, 6}}}, number("axis", 1)),
            "does not join");
  malformed(verdict(TN_OP_concat, {{f32, {2, 3}}, absent}, {{f32, {2, 3}}}, number("axis", 1)),
            "input 1 is absent");
  malformed(verdict(TN_OP_concat, {{f32, {0, INT64_MAX}}, {f32, {0, 1}}}, {{f32, {0, 4}}}, number("axis", 1)),
            "does not join");
  passes(verdict(TN_OP_slice, {{f32, {9}}}, {{f32, {3}}}, begin_end_step({1}, {8}, {3})));
  passes(verdict(TN_OP_slice, {{f32, {9}}}, {{f32, {1}}}, begin_end_step({0}, {9}, {INT64_MAX})));
  malformed(verdict(TN_OP_slice, {{f32, {9}}}, {{f32, {3}}}, begin_end_step({1}, {10}, {3})),
            "[1:10:3] leaves dim 0 of [9]");
  malformed(verdict(TN_OP_slice, {{f32, {9}}}, {{f32, {3}}}, begin_end_step({1}, {8}, {0})),
            "[1:8:0] leaves");
  malformed(verdict(TN_OP_slice, {{f32, {9}}}, {{f32, {3}}}, begin_end_step({1, 0}, {8}, {3})),
            "1 numbers each");
  passes(verdict(TN_OP_pad, {{f32, {2}}}, {{f32, {5}}}, padded({1}, {2})));
  malformed(verdict(TN_OP_pad, {{f32, {2}}}, {{f32, {5}}}, padded({-1}, {4})), "padded by -1 and 4");
  malformed(verdict(TN_OP_pad, {{f32, {2}}}, {{f32, {5}}}, padded({INT64_MAX}, {INT64_MAX})), "is padded by");
  passes(verdict(TN_OP_broadcast_to, {{f32, {1, 3}}}, {{f32, {4, 3}}}, integers({{"shape", {4, 3}}})));
  malformed(verdict(TN_OP_broadcast_to, {{f32, {2, 3}}}, {{f32, {4, 3}}}, integers({{"shape", {4, 3}}})),
            "[2,3] is not repeated to [4,3]");
}

TEST_CASE("op rules: lookups and random numbers") {
  const auto drop = [](double rate) { return [=](auto& n) { n.real("rate", rate).integer("key", 0); }; };
  const auto one_hot = [](auto& n) { n.integer("classes", 5).dtype("dtype", f32); };
  passes(verdict(TN_OP_embedding, {{i32, {2, 3}}, {f32, {9, 4}}}, {{f32, {2, 3, 4}}}));
  malformed(verdict(TN_OP_embedding, {{f32, {2}}, {f32, {9, 4}}}, {{f32, {2, 4}}}), "integer indices");
  malformed(verdict(TN_OP_embedding, {{i32, {2}}, {f32, {9}}}, {{f32, {2}}}), "must be of rank 2");
  passes(
      verdict(TN_OP_embedding_grad, {{i64, {2, 3}}, {f32, {2, 3, 4}}}, {{f32, {9, 4}}}, number("rows", 9)));
  malformed(verdict(TN_OP_embedding_grad, {{i64, {2}}, {f32, {3, 4}}}, {{f32, {9, 4}}}, number("rows", 9)),
            "must be [2,4]");
  passes(verdict(TN_OP_one_hot, {{i64, {2}}}, {{f32, {2, 5}}}, one_hot));
  malformed(verdict(TN_OP_one_hot, {{f32, {2}}}, {{f32, {2, 5}}}, one_hot), "integer indices");
  passes(verdict(TN_OP_dropout, {{f32, {4}}, {u64, {}}, {u64, {}}}, {{f32, {4}}}, drop(0.5)));
  malformed(verdict(TN_OP_dropout, {{f32, {4}}, {u64, {}}, {i64, {}}}, {{f32, {4}}}, drop(0.5)),
            "seed and offset of u64");
  malformed(verdict(TN_OP_dropout, {{f32, {4}}, {u64, {1}}, {u64, {}}}, {{f32, {4}}}, drop(0.5)),
            "must be of rank 0");
  malformed(verdict(TN_OP_dropout, {{f32, {4}}, {u64, {}}, {u64, {}}}, {{f32, {4}}}, drop(1.5)),
            "attribute 'rate' is 1.5, it must be 0 to 1");
}

TEST_CASE("op rules: convolutions and pools slide a window that fits") {
  const std::vector<int64_t> x{2, 4, 9, 9}, w{6, 2, 3, 3}, y{2, 6, 5, 5};
  passes(verdict(TN_OP_conv2d, {{f32, x}, {f32, w}}, {{f32, y}}, window({1, 1, 1, 1}, {2, 2}, {1, 1}, 2)));
  malformed(verdict(TN_OP_conv2d, {{f32, x}, {f32, w}}, {{f32, y}}, window({1, 1, 1, 1}, {2, 2}, {1, 1}, 3)),
            "3 groups");
  malformed(verdict(TN_OP_conv2d, {{f32, x}, {f32, w}}, {{f32, y}}, window({1, 1, 1, 1}, {2, 0}, {1, 1}, 2)),
            "stride 0");
  malformed(verdict(TN_OP_conv2d, {{f32, x}, {f32, w}}, {{f32, y}},
                    window({0, 0, 0, 0}, {1, 1}, {INT64_MAX, 1}, 2)),
            "does not fit 9 places");
  malformed(verdict(TN_OP_conv2d, {{f32, x}, {f32, w}}, {{f32, y}}, window({0, 0}, {1, 1}, {1, 1}, 2)),
            "pad has 4 numbers");
  const auto pool = [](std::vector<int64_t> kernel) {
    return integers({{"kernel", kernel}, {"pad", {0, 0, 0, 0}}, {"stride", {3, 3}}});
  };
  passes(verdict(TN_OP_max_pool, {{f32, x}}, {{f32, {2, 4, 3, 3}}}, pool({3, 3})));
  malformed(verdict(TN_OP_max_pool, {{f32, x}}, {{f32, {2, 4, 3, 3}}}, pool({3})), "kernel has 2 numbers");
  passes(verdict(TN_OP_max_pool_grad, {{f32, {2, 4, 3, 3}}, {f32, x}}, {{f32, x}}, pool({3, 3})));
  malformed(verdict(TN_OP_global_pool, {{f32, x}}, {{f32, {2, 4}}}), "must be [2,4,1,1]");
}

TEST_CASE("op rules: normalisations have statistics by channel or by row") {
  const auto axes = [](int64_t n) {
    return [=](auto& node) { node.integer("axes", n).real("epsilon", 1e-5); };
  };
  const auto channels = [](auto& n) { n.real("epsilon", 1e-5).real("momentum", 0.9); };
  const std::vector<int64_t> x{2, 3, 4}, c{3};
  const std::vector<Operand> in{{f16, x}, {f32, c}, {f32, c}, {f32, c}, {f32, c}};
  passes(verdict(TN_OP_batch_norm_train, in, {{f16, x}, {f32, c}, {f32, c}, absent, {f32, c}}, channels));
  malformed(verdict(TN_OP_batch_norm_train, in, {{f32, x}, {f32, c}, {f32, c}, {f32, c}, {f32, c}}, channels),
            "one float type");
  malformed(
      verdict(TN_OP_batch_norm_train, in, {{f16, x}, {f32, {2}}, {f32, c}, {f32, c}, {f32, c}}, channels),
      "output 1 is [2] and must be [3]");
  passes(verdict(TN_OP_batch_norm_stats, {{f16, x}}, {{f32, c}, {f32, c}}));
  malformed(verdict(TN_OP_batch_norm_stats, {{f16, x}}, {{f16, c}, {f32, c}}), "one float type");
  passes(verdict(TN_OP_layer_norm, {{f32, x}, {f32, {3, 4}}, {f32, {3, 4}}},
                 {{f32, x}, {f32, {2}}, {f32, {2}}}, axes(2)));
  malformed(verdict(TN_OP_layer_norm, {{f32, x}, {f32, {4}}, {f32, {4}}}, {{f32, x}, {f32, {2, 3}}, absent},
                    axes(4)),
            "normalises the last 4 dims of [2,3,4]");
  malformed(verdict(TN_OP_rms_norm, {{f32, x}, {f32, {3}}}, {{f32, x}, {f32, {2, 3}}}, axes(1)),
            "must be [4]");
}

TEST_CASE("op rules: softmax, losses and attention") {
  passes(verdict(TN_OP_softmax, {{f32, {2, 3}}}, {{f32, {2, 3}}}, number("axis", -2)));
  malformed(verdict(TN_OP_softmax, {{f32, {}}}, {{f32, {}}}, number("axis", -1)),
            "axis -1 is outside rank 0");
  const auto ignore = number("ignore_index", -100);
  passes(verdict(TN_OP_cross_entropy, {{f16, {4, 9}}, {i32, {4}}}, {{f32, {4}}, {f32, {4}}}, ignore));
  malformed(verdict(TN_OP_cross_entropy, {{f16, {4, 9}}, {i32, {4}}}, {{f16, {4}}, {f32, {4}}}, ignore),
            "losses and logarithms in f32");
  malformed(verdict(TN_OP_cross_entropy, {{f16, {4, 9}}, {i32, {9}}}, {{f32, {4}}, {f32, {4}}}, ignore),
            "must be [4]");
  const std::vector<int64_t> q{2, 3, 5, 8}, k{2, 3, 7, 8}, rows{2, 3, 5};
  const auto scaled = [](auto& n) { n.integer("causal", 0).real("scale", 1); };
  passes(verdict(TN_OP_attention, {{f16, q}, {f16, k}, {f16, k}, {f16, {5, 7}}}, {{f16, q}, {f32, rows}},
                 scaled));
  passes(verdict(TN_OP_attention, {{f16, q}, {f16, k}, {f16, k}, absent}, {{f16, q}, absent}, scaled));
  malformed(verdict(TN_OP_attention, {{f16, q}, {f16, k}, {f16, k}}, {{f16, q}, {f16, rows}}, scaled),
            "logarithms in f32");
  malformed(verdict(TN_OP_attention, {{f16, q}, {f16, k}, {f16, k}, {f16, {5, 6}}}, {{f16, q}, {f32, rows}},
                    scaled),
            "[5,6] does not broadcast");
  malformed(verdict(TN_OP_attention, {{f16, q}, {f16, k}, {f16, q}}, {{f16, q}, {f32, rows}}, scaled),
            "must be [2,3,7,8]");
}

TEST_CASE("op rules: an optimizer's outputs renew its inputs") {
  const std::vector<int64_t> d{4};
  const std::vector<Operand> in{{f16, d}, {f16, d}, {f32, d}, {f32, d}, {f32, {}}, {f32, {}}, {f32, d}};
  passes(verdict(TN_OP_adam, in, {{f16, d}, {f32, d}, {f32, d}, {f32, d}}, adam()));
  std::vector<Operand> bare(in.begin(), in.end() - 1);
  malformed(verdict(TN_OP_adam, bare, {{f16, d}, {f32, d}, {f32, d}, {f32, d}}, adam()),
            "output 3 renews input 6, which is absent");
  passes(verdict(TN_OP_adam, bare, {{f16, d}, {f32, d}, {f32, d}, absent}, adam()));
  bare[2].dtype = f16;
  malformed(verdict(TN_OP_adam, bare, {{f16, d}, {f16, d}, {f32, d}}, adam()),
            "states and masters of halves in f32");
  malformed(verdict(TN_OP_check_finite_and_unscale, {{f32, {}}, {f32, d}, absent}, {{f32, {}}, {f32, d}}),
            "input 2 is absent");
  malformed(verdict(TN_OP_check_finite_and_unscale, {{f32, {}}, {f16, d}}, {{f32, {}}, {f32, d}}), "floats");
  passes(verdict(TN_OP_check_finite_and_unscale, {{f32, {}}, {f16, d}}, {{f32, {}}, {f16, d}}));
  CHECK(renewed_input(TN_OP_sgd, 2) == 1);
  CHECK(renewed_input(TN_OP_momentum, 2) == 4);
  CHECK(renewed_input(TN_OP_check_finite_and_unscale, 0) == TN_ABSENT);
  CHECK(renewed_input(TN_OP_add, 0) == TN_ABSENT);
}

TEST_CASE("op rules: a collective's part divides the whole along dim 0") {
  passes(verdict(TN_OP_all_gather, {{f32, {2, 3}}}, {{f32, {8, 3}}}, number("comm", 0)));
  malformed(verdict(TN_OP_all_gather, {{f32, {2, 3}}}, {{f32, {7, 3}}}, number("comm", 0)),
            "[2,3] is no part of [7,3]");
}

TEST_CASE("op rules: what is written has a place for each element") {
  FragmentBuilder f;
  const uint32_t x = f.input(f32, {3, 2}), y = f.output(f32, {3, 2}, {1, 1});
  f.node(TN_OP_neg, {x}, {y});
  const FragmentView view(f.fragment());
  malformed(check_rules(view), "output tensor 1 has strides under which two elements may share a place");
}

TEST_CASE("op rules: nothing is read before it is made, made twice, or left unmade") {
  FragmentBuilder early, twice, unmade, empty, input;
  {
    const uint32_t x = early.input(f32, {4}), t = early.tensor(f32, {4}), y = early.output(f32, {4});
    early.node(TN_OP_add, {x, t}, {y});
    early.node(TN_OP_neg, {x}, {t});
  }
  malformed(check_rules(FragmentView(early.fragment())), "node 0 (add): reads tensor 1 before it is made");
  {
    const uint32_t x = twice.input(f32, {4}), y = twice.output(f32, {4});
    twice.node(TN_OP_neg, {x}, {y});
    twice.node(TN_OP_abs, {x}, {y});
  }
  malformed(check_rules(FragmentView(twice.fragment())), "node 1 (abs): makes tensor 1 a second time");
  {
    const uint32_t x = input.input(f32, {4});
    input.node(TN_OP_neg, {x}, {x});
  }
  malformed(check_rules(FragmentView(input.fragment())), "makes tensor 0 a second time");
  {
    const uint32_t x = unmade.input(f32, {4});
    unmade.output(f32, {4});
    unmade.node(TN_OP_neg, {x}, {unmade.output(f32, {4})});
  }
  malformed(check_rules(FragmentView(unmade.fragment())), "output tensor 1 is made by no node");
  empty.output(f32, {4});
  malformed(check_rules(FragmentView(empty.fragment())), "no nodes");
}

TEST_CASE("op rules: a constant has all of its bytes") {
  FragmentBuilder f;
  const uint32_t x = f.constant(f32, {2}, std::vector<std::byte>(7)), y = f.output(f32, {2});
  f.node(TN_OP_neg, {x}, {y});
  malformed(check_rules(FragmentView(f.fragment())), "constant tensor 0 has 7 bytes and needs 8");
}

TEST_CASE("op rules: a fragment that is good costs no allocation") {
  FragmentBuilder f;
  const uint32_t a = f.input(f32, {4, 3}), b = f.input(f32, {3, 7}), bias = f.input(f32, {7}),
                 c = f.tensor(f32, {4, 7}), s = f.tensor(f32, {4, 7}), y = f.output(f32, {4}, {2});
  f.node(TN_OP_matmul, {a, b}, {c}).integer("transpose_a", 0).integer("transpose_b", 0);
  f.node(TN_OP_add, {c, bias}, {s});
  f.node(TN_OP_sum, {s}, {y}).integers("axes", {1}).integer("keepdims", 0);
  const FragmentView view(f.fragment());
  const uint64_t before = allocations;
  const tenon::Status said = check_rules(view);
  CHECK(allocations == before);
  passes(said);
}
