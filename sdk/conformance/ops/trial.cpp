// SPDX-License-Identifier: Apache-2.0
// trial.cpp: where elements lie, and a trial in words.
#include "conformance/ops/trial.hpp"

#include "conformance/words.hpp"

#include <algorithm>

namespace tenon::conform {

std::string told(const Operand& operand) {
  if (operand.absent) return "absent";
  if (operand.is_first) return "the first input again";
  std::string out = words(author::dtype_name(operand.dtype), told(operand.dims));
  if (!operand.strides.empty()) out += words(" strides ", told(operand.strides));
  if (operand.skew != 0) out += words(" moved by ", operand.skew);
  if (operand.alignment != 0) out += words(" aligned to ", operand.alignment);
  if (operand.repeats_first) out += " in the first input's memory";
  return out;
}

std::string told(const AttributeValue& a) {
  switch (a.kind) {
    case TN_ATTRIBUTE_I64:
      return words(a.name, "=", a.integer);
    case TN_ATTRIBUTE_F64:
      return words(a.name, "=", a.real);
    case TN_ATTRIBUTE_DTYPE:
      return words(a.name, "=", author::dtype_name(static_cast<uint32_t>(a.integer)));
    case TN_ATTRIBUTE_STRING:
      return words(a.name, "='", a.text, "'");
    default:
      return words(a.name, "=", told(a.integers));
  }
}

namespace {

std::string described(const std::vector<Operand>& operands) {
  std::string out;
  for (const Operand& operand : operands) out += (out.empty() ? "" : ", ") + told(operand);
  return out;
}

}  // namespace

const AttributeValue* Trial::attribute(std::string_view name) const noexcept {
  for (const AttributeValue& one : attributes) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

int64_t Trial::integer(std::string_view name) const noexcept {
  const AttributeValue* const found = attribute(name);
  return found != nullptr ? found->integer : 0;
}

double Trial::real(std::string_view name) const noexcept {
  const AttributeValue* const found = attribute(name);
  return found != nullptr ? found->real : 0;
}

const std::vector<int64_t>& Trial::integers(std::string_view name) const noexcept {
  static const std::vector<int64_t> none;
  const AttributeValue* const found = attribute(name);
  return found != nullptr ? found->integers : none;
}

uint64_t element_count(const std::vector<int64_t>& dims) noexcept {
  uint64_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<uint64_t>(dim);
  return count;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> out(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) out[i] = step;
  return out;
}

std::vector<int64_t> strides_of(const Operand& operand) {
  return operand.strides.empty() ? dense_strides(operand.dims) : operand.strides;
}

uint64_t extent(const Operand& operand) {
  if (operand.absent || element_count(operand.dims) == 0) return 0;
  const std::vector<int64_t> strides = strides_of(operand);
  uint64_t last = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    last += static_cast<uint64_t>((operand.dims[i] - 1) * strides[i]);
  return last + 1;
}

std::vector<uint64_t> places(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  std::vector<uint64_t> out(element_count(dims));
  std::vector<int64_t> at(dims.size());
  int64_t offset = 0;
  for (uint64_t& place : out) {
    place = static_cast<uint64_t>(offset);
    for (size_t i = dims.size(); i-- > 0;) {
      offset += strides[i];
      if (++at[i] < dims[i]) break;
      offset -= strides[i] * dims[i];
      at[i] = 0;
    }
  }
  return out;
}

std::vector<uint64_t> broadcast_places(const std::vector<int64_t>& dims, const std::vector<int64_t>& target) {
  const std::vector<int64_t> own = dense_strides(dims);
  std::vector<int64_t> strides(target.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1) strides[target.size() - dims.size() + i] = own[i];
  }
  return places(target, strides);
}

std::string told(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (const int64_t dim : dims) out += words(out.size() > 1 ? "," : "", dim);
  return out + "]";
}

std::string told(const Trial& trial) {
  std::string out =
      words(trial.row->name, "(", described(trial.inputs), ") → ",
            trial.outputs.size() == 1 ? described(trial.outputs) : words("(", described(trial.outputs), ")"));
  for (const AttributeValue& one : trial.attributes) out += "; " + told(one);
  for (const tn_alias& pair : trial.aliases)
    out += words("; output ", pair.output, " in place of input ", pair.input);
  return out;
}

}  // namespace tenon::conform
