// SPDX-License-Identifier: Apache-2.0
// interpreter.cpp: see interpreter.hpp.
#include "support/interpreter.hpp"

#include "conformance/ops/meaning.hpp"

#include <tenon/author/names.hpp>

#include <stdexcept>

namespace tenon::test {
namespace {

conform::Operand operand_of(const TensorSpec& spec) {
  return {.dtype = static_cast<uint32_t>(spec.dtype), .dims = spec.dims};
}

conform::AttributeValue attribute_of(const Attribute& attribute) {
  conform::AttributeValue out{.name = attribute.name};
  if (const auto* whole = std::get_if<int64_t>(&attribute.value)) out.integer = *whole;
  if (const auto* real = std::get_if<double>(&attribute.value)) out.real = *real;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value)) out.integers = *list;
  if (const auto* text = std::get_if<std::string>(&attribute.value)) out.text = *text;
  if (const auto* dtype = std::get_if<DType>(&attribute.value)) out.integer = static_cast<int64_t>(*dtype);
  return out;
}

bool is_float(const TensorSpec& spec) { return author::is_float(static_cast<uint32_t>(spec.dtype)); }

void round(const TensorSpec& spec, conform::Tensor& tensor) {
  if (!is_float(spec)) return;
  const auto format = conform::format_of(static_cast<uint32_t>(spec.dtype));
  for (conform::Scalar& one : tensor.at) one.real = conform::rounded(format, one.real);
}

void run(const Graph& graph, const Graph::Node& node, Tensors& values) {
  const auto spec = [&](uint32_t index) -> const TensorSpec& { return graph.values()[index].spec; };
  if (node.op == Op::cast && is_float(spec(node.inputs[0])) && is_float(spec(node.outputs[0]))) {
    conform::Tensor same = values.at(node.inputs[0]);
    same.dtype = static_cast<uint32_t>(spec(node.outputs[0]).dtype);
    values.emplace(node.outputs[0], std::move(same));
    return;
  }
  conform::Trial trial{.row = conform::find_row(static_cast<uint32_t>(node.op))};
  for (const Attribute& attribute : node.attributes) trial.attributes.push_back(attribute_of(attribute));
  conform::Job job{.trial = trial};
  for (const uint32_t index : node.inputs) {
    trial.inputs.push_back(index == TN_ABSENT ? conform::Operand{.absent = true} : operand_of(spec(index)));
    job.in.push_back(index == TN_ABSENT ? conform::Tensor{} : values.at(index));
  }
  for (const uint32_t index : node.outputs) {
    trial.outputs.push_back(index == TN_ABSENT ? conform::Operand{.absent = true} : operand_of(spec(index)));
    conform::Wanted& wanted = job.out.emplace_back();
    if (index != TN_ABSENT) wanted.tensor = tensor_of(spec(index), {});
  }
  conform::meaning_of(*trial.row).compute(job);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != TN_ABSENT) values.emplace(node.outputs[i], std::move(job.out[i].tensor));
  }
}

}  // namespace

conform::Tensor tensor_of(const TensorSpec& spec, const std::vector<double>& numbers) {
  conform::Tensor out{.dtype = static_cast<uint32_t>(spec.dtype), .dims = spec.dims, .at = {}};
  out.at.resize(spec.elements());
  for (size_t i = 0; i < numbers.size() && i < out.at.size(); ++i) {
    out.at[i] = is_float(spec)
                    ? conform::Scalar::of(numbers[i])
                    : conform::Scalar::of_whole(static_cast<uint64_t>(static_cast<int64_t>(numbers[i])));
  }
  return out;
}

Tensors run(const Graph& graph, const Tensors& given) {
  Tensors values = given;
  for (const Graph::Node& node : graph.nodes()) {
    const bool known = !node.outputs.empty() && values.count(node.outputs.front()) != 0;
    if (!known) run(graph, node, values);
  }
  return values;
}

Tensors run_rounded(const Graph& graph, const Tensors& given) {
  Tensors values = given;
  for (auto& [index, tensor] : values) round(graph.values()[index].spec, tensor);
  for (const Graph::Node& node : graph.nodes()) {
    run(graph, node, values);
    for (const uint32_t index : node.outputs) {
      if (index != TN_ABSENT) round(graph.values()[index].spec, values.at(index));
    }
  }
  return values;
}

}  // namespace tenon::test
