// SPDX-License-Identifier: Apache-2.0
// schema.cpp: see schema.hpp. The attribute column is "name:type=default; …"; a row that breaks this form ends in a
// required attribute of kind 0, which the tests refuse.
#include "base/schema.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace tenon::base {
namespace {

struct KindName {
  std::string_view name;
  uint32_t kind;
};
// In the order of AttributeValue's alternatives.
constexpr KindName kinds[] = {{"int", TN_ATTRIBUTE_I64},       {"float", TN_ATTRIBUTE_F64},
                              {"ints", TN_ATTRIBUTE_I64S},     {"floats", TN_ATTRIBUTE_F64S},
                              {"string", TN_ATTRIBUTE_STRING}, {"dtype", TN_ATTRIBUTE_DTYPE}};
static_assert(std::size(kinds) == std::variant_size_v<AttributeValue>);

template <class Number>
Number number_from(std::string_view text) noexcept {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

template <class Number>
std::vector<Number> numbers_from(std::string_view text) {
  std::vector<Number> values;
  text.remove_prefix(std::min(text.find('[') + 1, text.size()));
  text = text.substr(0, text.find(']'));
  if (trim(text).empty()) return values;
  for (const std::string& part : split(text, ',')) values.push_back(number_from<Number>(trim(part)));
  return values;
}

AttributeValue fallback_from(uint32_t kind, std::string_view text) {
  switch (kind) {
    case TN_ATTRIBUTE_I64:
      return number_from<int64_t>(text);
    case TN_ATTRIBUTE_F64:
      return number_from<double>(text);
    case TN_ATTRIBUTE_I64S:
      return numbers_from<int64_t>(text);
    case TN_ATTRIBUTE_F64S:
      return numbers_from<double>(text);
    case TN_ATTRIBUTE_DTYPE: {
      auto dtype = dtype_from(text);
      return dtype.ok() ? *dtype : DType{};
    }
    default:
      return std::string(text);
  }
}

AttributeSchema attribute_from(std::string_view column) {
  AttributeSchema schema;
  const size_t colon = column.find(':'), equals = column.find('=');
  schema.name = trim(column.substr(0, colon));
  const std::string_view type =
      colon == std::string_view::npos ? "" : trim(column.substr(colon + 1, equals - colon - 1));
  for (const KindName& kind : kinds) {
    if (kind.name == type) schema.kind = kind.kind;
  }
  schema.required = equals == std::string_view::npos;
  if (!schema.required) schema.fallback = fallback_from(schema.kind, trim(column.substr(equals + 1)));
  return schema;
}

std::vector<AttributeSchema> attributes_from(std::string_view column) {
  std::vector<AttributeSchema> attributes;
  while (!trim(column).empty()) {
    const size_t end = std::min(column.find(';'), column.size());
    attributes.push_back(attribute_from(column.substr(0, end)));
    column.remove_prefix(std::min(end + 1, column.size()));
  }
  std::sort(attributes.begin(), attributes.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return attributes;
}

OpSchema row(uint32_t number, std::string_view name, uint32_t version, uint32_t least, uint32_t most,
             uint32_t outputs, std::string_view attributes) {
  return {.op = static_cast<Op>(number),
          .name = name,
          .version = version,
          .inputs_min = least,
          .inputs_max = most,
          .outputs = outputs,
          .many_inputs = most == TN_OP_MANY,
          .many_outputs = outputs == TN_OP_MANY,
          .attributes = attributes_from(attributes)};
}

std::vector<OpSchema> read_table() {
  std::vector<OpSchema> rows;
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  rows.push_back(row(number, #name, version, inputs_min, inputs_max, outputs, attributes));
#include <tenon/ops.def>
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.op < b.op; });
  return rows;
}

const std::vector<OpSchema>& table() {
  static const std::vector<OpSchema> rows = read_table();
  return rows;
}

uint32_t kind_of(const AttributeValue& value) noexcept { return kinds[value.index()].kind; }

const AttributeSchema* find_attribute(const OpSchema& schema, std::string_view name) {
  const auto found = std::find_if(schema.attributes.begin(), schema.attributes.end(),
                                  [&](const AttributeSchema& attribute) { return attribute.name == name; });
  return found == schema.attributes.end() ? nullptr : &*found;
}

Status unknown_attribute(const OpSchema& schema, const std::string& name) {
  std::vector<std::string_view> names;
  for (const AttributeSchema& attribute : schema.attributes) names.push_back(attribute.name);
  std::string all;
  for (const std::string_view known : names) all += (all.empty() ? "" : ", ") + std::string(known);
  return Status(TN_INVALID, "has no attribute " + base::quoted(name, 64) + did_you_mean(name, names) +
                                (all.empty() ? "; it takes none" : "; it takes " + all));
}

Status fit_kind(const AttributeSchema& schema, AttributeValue& value) {
  if (schema.kind == TN_ATTRIBUTE_F64 && std::holds_alternative<int64_t>(value)) {
    value = static_cast<double>(std::get<int64_t>(value));
  }
  if (schema.kind == TN_ATTRIBUTE_F64S && std::holds_alternative<std::vector<int64_t>>(value)) {
    const auto numbers = std::get<std::vector<int64_t>>(value);
    value = std::vector<double>(numbers.begin(), numbers.end());
  }
  // There is one NaN, as the text form has one word for it: equal meanings have equal identities.
  if (auto* number = std::get_if<double>(&value); number != nullptr && std::isnan(*number))
    *number = std::numeric_limits<double>::quiet_NaN();
  if (kind_of(value) == schema.kind) return {};
  return Status(TN_INVALID, "attribute '" + std::string(schema.name) + "' is given as " +
                                std::string(kind_name(kind_of(value))) + ", it is of type " +
                                std::string(kind_name(schema.kind)));
}

}  // namespace

std::span<const OpSchema> op_schemas() { return table(); }

const OpSchema* schema_of(Op op) noexcept {
  const auto& rows = table();
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), op, [](const OpSchema& a, Op b) { return a.op < b; });
  return found == rows.end() || found->op != op ? nullptr : &*found;
}

std::string_view kind_name(uint32_t kind) noexcept {
  for (const KindName& entry : kinds) {
    if (entry.kind == kind) return entry.name;
  }
  return kind == TN_ATTRIBUTE_BYTES ? "bytes" : "?";
}

Result<std::vector<Attribute>> complete_attributes(const OpSchema& schema, std::vector<Attribute> given) {
  for (Attribute& attribute : given) {
    const AttributeSchema* known = find_attribute(schema, attribute.name);
    if (known == nullptr) return unknown_attribute(schema, attribute.name);
    TN_TRY(fit_kind(*known, attribute.value));
  }
  for (const AttributeSchema& known : schema.attributes) {
    const auto is_it = [&](const Attribute& attribute) { return attribute.name == known.name; };
    const auto count = std::count_if(given.begin(), given.end(), is_it);
    const std::string name(known.name);
    if (count > 1)
      return Status(TN_INVALID, "attribute '" + name + "' is given " + std::to_string(count) + " times");
    if (count == 1) continue;
    if (known.required) {
      return Status(TN_INVALID, "attribute '" + name + "' (" + std::string(kind_name(known.kind)) +
                                    ") is missing and has no default: give it");
    }
    given.push_back({name, known.fallback});
  }
  std::sort(given.begin(), given.end(),
            [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
  return given;
}

}  // namespace tenon::base
