// SPDX-License-Identifier: Apache-2.0
// schema.hpp: the rows of ops.def as data: how many inputs and outputs an op has, and its attributes with defaults.
//
// Invariant: parsed once from the table that plugins see, so host and plugins cannot disagree about a default.
#pragma once

#include <tenon/fragment.hpp>

#include <span>
#include <string_view>
#include <vector>

namespace tenon::base {

struct AttributeSchema {
  std::string_view name;
  uint32_t kind = 0;  // TN_ATTRIBUTE_…
  bool required = false;
  AttributeValue fallback{};  // when it is not required
};

struct OpSchema {
  Op op{};
  std::string_view name;
  uint32_t version = 1;
  uint32_t inputs_min = 0, inputs_max = 0;  // an input past inputs_min is optional
  uint32_t outputs = 0;
  bool many_inputs = false, many_outputs = false;
  std::vector<AttributeSchema> attributes{};  // sorted by name
};

// All ops, by number. [any-thread; does not block; cannot fail]
std::span<const OpSchema> op_schemas();
// The row of `op`, or NULL. [any-thread; does not block; returns NULL]
const OpSchema* schema_of(Op op) noexcept;
// "int", "floats" …: what the table calls a kind of attribute. [any-thread; does not block; cannot fail]
std::string_view kind_name(uint32_t kind) noexcept;

// `given` checked against the row, missing ones filled in, sorted by name; an int is taken where a float is asked for.
// TN_INVALID naming the attribute, its value's kind and the nearest name. [any-thread; does not block; may fail]
Result<std::vector<Attribute>> complete_attributes(const OpSchema& schema, std::vector<Attribute> given);

}  // namespace tenon::base
