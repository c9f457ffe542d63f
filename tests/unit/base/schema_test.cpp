// SPDX-License-Identifier: Apache-2.0
// The attribute column of ops.def as data.
#include "base/schema.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;
using base::schema_of;

namespace {

const base::AttributeSchema& attribute(Op op, std::string_view name) {
  const base::OpSchema* schema = schema_of(op);
  REQUIRE(schema != nullptr);
  const auto found = std::find_if(schema->attributes.begin(), schema->attributes.end(),
                                  [&](const auto& candidate) { return candidate.name == name; });
  REQUIRE(found != schema->attributes.end());
  return *found;
}

}  // namespace

TEST_CASE("schema: every row of the table is well formed") {
  CHECK(base::op_schemas().size() > 100);
  for (const base::OpSchema& schema : base::op_schemas()) {
    CAPTURE(std::string(schema.name));
    CHECK(schema.version >= 1);
    CHECK(schema.inputs_min <= schema.inputs_max);
    for (const base::AttributeSchema& attribute : schema.attributes) {
      CAPTURE(std::string(attribute.name));
      CHECK(attribute.kind != 0);
      CHECK_FALSE(attribute.name.empty());
    }
    const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
    CHECK(std::is_sorted(schema.attributes.begin(), schema.attributes.end(), by_name));
    CHECK(schema_of(schema.op) == &schema);
  }
}

TEST_CASE("schema: defaults are read with their types") {
  CHECK(std::get<int64_t>(attribute(Op::softmax, "axis").fallback) == -1);
  CHECK(std::get<double>(attribute(Op::layer_norm, "epsilon").fallback) == 1e-5);
  CHECK(std::get<double>(attribute(Op::batch_norm_train, "momentum").fallback) == 0.9);
  CHECK(std::get<std::vector<int64_t>>(attribute(Op::conv2d, "dilation").fallback) ==
        std::vector<int64_t>{1, 1});
  CHECK(std::get<std::vector<int64_t>>(attribute(Op::conv2d, "pad").fallback) ==
        std::vector<int64_t>{0, 0, 0, 0});
  CHECK(attribute(Op::sum, "axes").required);
  CHECK(attribute(Op::cast, "dtype").kind == TN_ATTRIBUTE_DTYPE);
  CHECK(attribute(Op::all_reduce, "reduce").kind == TN_ATTRIBUTE_STRING);
  CHECK(attribute(Op::adam, "epsilon").kind == TN_ATTRIBUTE_F64);
}

TEST_CASE("schema: ops that take many are not limited to the marker's number") {
  CHECK(schema_of(Op::concat)->many_inputs);
  CHECK_FALSE(schema_of(Op::concat)->many_outputs);
  CHECK(schema_of(Op::check_finite_and_unscale)->many_outputs);
  CHECK(schema_of(static_cast<Op>(0)) == nullptr);
  CHECK(schema_of(static_cast<Op>(99'999)) == nullptr);
}

TEST_CASE("schema: attributes are completed, converted and sorted") {
  const auto all = base::complete_attributes(*schema_of(Op::scale), {{"scale", int64_t{2}}});
  REQUIRE(all.ok());
  REQUIRE(all->size() == 2);
  CHECK((*all)[0].name == "bias");
  CHECK(std::get<double>((*all)[0].value) == 0.0);
  CHECK((*all)[1].name == "scale");
  CHECK(std::get<double>((*all)[1].value) == 2.0);
}
