// SPDX-License-Identifier: Apache-2.0
// fragment_test.cpp: names, views and the builder.
// Invariant: what the builder writes is what the views read.
#include <tenon/author/fragment_builder.hpp>
#include <tenon/author/fragment_view.hpp>
#include <tenon/author/text.hpp>

#include <doctest/doctest.h>

using namespace tenon::author;

TEST_CASE("names: dtypes and ops come from the tables") {
  CHECK(dtype_name(TN_DTYPE_bf16) == "bf16");
  CHECK(dtype_bits(TN_DTYPE_f64) == 64);
  CHECK(dtype_row(TN_DTYPE_i4).reserved);
  CHECK(is_float(TN_DTYPE_f16));
  CHECK(!is_float(TN_DTYPE_i32));
  CHECK(dtype_bytes(TN_DTYPE_i4, 3) == 2);
  CHECK(op_name(TN_OP_matmul) == "matmul");
  CHECK(op_row(TN_OP_add).family == "BINARY");
  CHECK(op_row(TN_OP_attention).inputs_max == 4);
}

TEST_CASE("names: an unknown number has no name and no width") {
  CHECK(dtype_name(0) == "?");
  CHECK(dtype_bits(999) == 0);
  CHECK(op_name(0) == "?");
  CHECK(op_row(65535).version == 0);
}

TEST_CASE("tensor: dense strides, counts and extents") {
  FragmentBuilder f;
  const uint32_t dense = f.tensor(TN_DTYPE_f32, {2, 3, 4}), rows = f.tensor(TN_DTYPE_f32, {2, 3}, {8, 1});
  const uint32_t none = f.tensor(TN_DTYPE_f32, {2, 0}), scalar = f.tensor(TN_DTYPE_f64, {});
  const uint32_t spread = f.tensor(TN_DTYPE_u8, {5, 1}, {0, 77});
  const FragmentView view(f.fragment());
  CHECK(view.tensor(dense).elements() == 24);
  CHECK(view.tensor(dense).strides()[0] == 12);
  CHECK(view.tensor(dense).strides()[2] == 1);
  CHECK(view.tensor(dense).is_dense());
  CHECK(view.tensor(dense).extent_bytes() == 96);
  CHECK(!view.tensor(rows).is_dense());
  CHECK(view.tensor(rows).extent_bytes() == (8 + 3) * 4);
  CHECK(view.tensor(none).elements() == 0);
  CHECK(view.tensor(none).extent_bytes() == 0);
  CHECK(view.tensor(none).is_dense());
  CHECK(view.tensor(scalar).elements() == 1);
  CHECK(view.tensor(scalar).extent_bytes() == 8);
  CHECK(!view.tensor(spread).is_dense());
  CHECK(view.tensor(spread).extent_bytes() == 1);
  CHECK(same_dims(view.tensor(dense), view.tensor(dense)));
  CHECK(!same_dims(view.tensor(dense), view.tensor(rows)));
}

TEST_CASE("tensor: strides that spell row-major are dense, whatever a dim of one says") {
  FragmentBuilder f;
  const uint32_t spelt = f.tensor(TN_DTYPE_f32, {2, 1, 3}, {3, 99, 1});
  CHECK(FragmentView(f.fragment()).tensor(spelt).is_dense());
}

TEST_CASE("builder: attributes are sorted, and read back by name and kind") {
  FragmentBuilder f("norm");
  const uint32_t x = f.input(TN_DTYPE_f32, {4}), y = f.output(TN_DTYPE_f32, {4});
  f.node(TN_OP_sum, {x}, {y})
      .integer("keepdims", 1)
      .integers("axes", {0, 2})
      .real("epsilon", 0.5)
      .string("mode", "fast");
  f.node(TN_OP_cast, {x}, {y}).dtype("dtype", TN_DTYPE_f16).reals("scales", {1.5, 2.5});
  const FragmentView view(f.fragment());
  const tn_node &sum = view.nodes()[0], &cast = view.nodes()[1];
  CHECK(sum.version == 1);
  CHECK(std::string_view(sum.attributes[0].name) == "axes");
  CHECK(std::string_view(sum.attributes[3].name) == "mode");
  CHECK(attribute_i64(sum, "keepdims") == 1);
  CHECK(attribute_f64(sum, "epsilon") == 0.5);
  CHECK(attribute_string(sum, "mode") == "fast");
  REQUIRE(attribute_i64s(sum, "axes").has_value());
  CHECK((*attribute_i64s(sum, "axes"))[1] == 2);
  CHECK(attribute_dtype(cast, "dtype") == TN_DTYPE_f16);
  CHECK((*attribute_f64s(cast, "scales"))[1] == 2.5);
  CHECK(!attribute_i64(sum, "absent").has_value());
  CHECK(!attribute_f64(sum, "keepdims").has_value());  // it is an integer
  CHECK(attribute(sum, "absent") == nullptr);
}

TEST_CASE("fragment: bindings, operands and aliases") {
  FragmentBuilder f("a + b");
  const uint32_t a = f.input(TN_DTYPE_f32, {4}), b = f.input(TN_DTYPE_f32, {4}),
                 c = f.output(TN_DTYPE_f32, {4});
  f.node(TN_OP_where, {a, TN_ABSENT, b}, {c});
  f.alias(1, 0);
  const FragmentView view(f.fragment());
  CHECK(view.name() == "a + b");
  CHECK(view.binding_count() == 3);
  CHECK(&view.binding(0).raw() == &view.tensors()[a]);
  CHECK(&view.binding(2).raw() == &view.tensors()[c]);
  CHECK(view.operand(view.nodes()[0], 0).has_value());
  CHECK(!view.operand(view.nodes()[0], 1).has_value());
  CHECK(!view.operand(view.nodes()[0], 3).has_value());
  CHECK(view.alias_of(0) == 1u);
  CHECK(!view.alias_of(1).has_value());
}

TEST_CASE("builder: constants carry their bytes") {
  FragmentBuilder f;
  const uint32_t two = f.constant(TN_DTYPE_u8, {2}, {std::byte{1}, std::byte{2}});
  const uint32_t none = f.constant(TN_DTYPE_u8, {0}, {});
  const FragmentView view(f.fragment());
  CHECK(view.tensor(two).is_constant());
  CHECK(view.tensor(two).raw().constant_bytes == 2);
  CHECK(static_cast<const uint8_t*>(view.tensor(two).raw().constant)[1] == 2);
  CHECK(view.tensor(none).is_constant());
}

TEST_CASE("text: fixed fields are cut between two characters") {
  char field[6];
  set_text(field, "ab");
  CHECK(std::string(field) == "ab");
  set_text(field, "abcdef");
  CHECK(std::string(field) == "abcde");
  set_text(field, "abcd€");  // three bytes that do not fit
  CHECK(std::string(field) == "abcd");
  CHECK(text("n = ", 3, ", x = ", uint64_t{7}) == "n = 3, x = 7");
}
