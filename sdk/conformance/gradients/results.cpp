// SPDX-License-Identifier: Apache-2.0
// results.cpp: what a node gives, from the columns of ops.def. Only what rows of gradients.def call is known here.
#include "conformance/gradients/program.hpp"

#include "conformance/fragments/draw_group.hpp"

#include <algorithm>
#include <cstdlib>

namespace tenon::conform {

namespace {

using Dims = std::vector<int64_t>;

Operand result_like(const Operand& one) { return {.dtype = one.dtype, .dims = one.dims}; }

uint32_t elementwise_type(const Row& row, const std::vector<Operand>& inputs, const Trial& node) {
  switch (row.dtypes) {
    case DtypeRule::COMPARE:
    case DtypeRule::LOGIC:
      return TN_DTYPE_bool;
    case DtypeRule::CAST:
      return static_cast<uint32_t>(node.integer("dtype"));
    case DtypeRule::SELECT:
      return inputs[1].dtype;
    default:
      return inputs[0].dtype;
  }
}

Dims reduced_dims(const Dims& dims, const Trial& node) {
  const Dims axes = from_the_front(node.integers("axes"), dims.size());
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!gone) out.push_back(dims[i]);
    if (gone && node.integer("keepdims") != 0) out.push_back(1);
  }
  return out;
}

Dims product_dims(const std::vector<Operand>& inputs, const Trial& node) {
  const Dims &a = inputs[0].dims, &b = inputs[1].dims;
  Dims out = joined({Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2)});
  out.push_back(node.integer("transpose_a") != 0 ? a.back() : a[a.size() - 2]);
  out.push_back(node.integer("transpose_b") != 0 ? b[b.size() - 2] : b.back());
  return out;
}

// Of an image under windows of `kernel`, of which there are `channels`.
Dims window_dims(const Dims& image, const Dims& kernel, int64_t channels, const Trial& node) {
  const Dims &pad = node.integers("pad"), &stride = node.integers("stride");
  const AttributeValue* const dilation = node.attribute("dilation");
  Dims out = {image[0], channels};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t apart = dilation != nullptr ? dilation->integers[i] : 1;
    out.push_back((image[2 + i] + pad[i] + pad[2 + i] - apart * (kernel[i] - 1) - 1) / stride[i] + 1);
  }
  return out;
}

Dims moved_dims(const Row& row, const Dims& dims, const Trial& node) {
  Dims out = dims;
  for (size_t i = 0; i < out.size(); ++i) {
    if (row.shape == ShapeRule::TRANSPOSE) out[i] = dims[static_cast<size_t>(node.integers("order")[i])];
    if (row.shape == ShapeRule::PAD) out[i] += node.integers("before")[i] + node.integers("after")[i];
    if (row.shape == ShapeRule::SLICE) {
      const int64_t step = node.integers("step")[i];
      out[i] = (node.integers("end")[i] - node.integers("begin")[i] + step - 1) / step;
    }
  }
  return out;
}

// Gradients of several operands at once: one for each input from `first` on.
std::vector<Operand> results_like(const std::vector<Operand>& inputs, size_t first, size_t count) {
  std::vector<Operand> out;
  for (size_t i = 0; i < count; ++i) out.push_back(result_like(inputs[first + i]));
  return out;
}

Dims one_result(const Row& row, const std::vector<Operand>& inputs, const Trial& node) {
  const Dims& dims = inputs[0].dims;
  switch (row.shape) {
    case ShapeRule::BROADCAST: {
      std::vector<Dims> all;
      for (const Operand& input : inputs) all.push_back(input.dims);
      return joined(all);
    }
    case ShapeRule::REDUCE:
      return reduced_dims(dims, node);
    case ShapeRule::MATMUL:
      return product_dims(inputs, node);
    case ShapeRule::CONV:
      return window_dims(dims, {inputs[1].dims[2], inputs[1].dims[3]}, inputs[1].dims[0], node);
    case ShapeRule::CONV_DATA:
      return node.integers("input_shape");
    case ShapeRule::CONV_WEIGHT:
      return node.integers("weight_shape");
    case ShapeRule::POOL:
      return window_dims(dims, node.integers("kernel"), dims[1], node);
    case ShapeRule::POOL_GRAD:
      return inputs.size() > 1 ? inputs[1].dims : node.integers("input_shape");
    case ShapeRule::EMBEDDING: {
      Dims out = dims;
      out.push_back(inputs[1].dims[1]);
      return out;
    }
    case ShapeRule::EMBEDDING_GRAD:
      return {node.integer("rows"), inputs[1].dims.back()};
    case ShapeRule::FROM_ATTRIBUTE:
    case ShapeRule::RESHAPE:
      return node.integers("shape");
    case ShapeRule::TRANSPOSE:
    case ShapeRule::SLICE:
    case ShapeRule::PAD:
      return moved_dims(row, dims, node);
    default:
      return dims;
  }
}

AttributeValue default_attribute(const AttributeRow& known) {
  AttributeValue out{.name = std::string(known.name), .kind = TN_ATTRIBUTE_I64};
  const std::string text(known.fallback);
  if (known.type == "float") {
    out.kind = TN_ATTRIBUTE_F64;
    out.real = std::strtod(text.c_str(), nullptr);
  } else if (known.type == "ints") {
    out.kind = TN_ATTRIBUTE_I64S;
    for (const char* at = text.c_str(); *at != '\0';) {
      char* end = nullptr;
      const long long value = std::strtoll(at, &end, 10);
      if (end != at) out.integers.push_back(value);
      at = end != at ? end : at + 1;
    }
  } else {
    out.integer = std::strtoll(text.c_str(), nullptr, 10);
  }
  return out;
}

}  // namespace

std::vector<int64_t> from_the_front(std::vector<int64_t> axes, size_t rank) {
  for (int64_t& axis : axes) axis += axis < 0 ? static_cast<int64_t>(rank) : 0;
  return axes;
}

std::vector<Operand> results_of(const Row& row, const std::vector<Operand>& inputs, const Trial& node) {
  if (row.family == Family::ATTENTION && row.outputs == 3) return results_like(inputs, 1, 3);
  if (row.shape == ShapeRule::ROW_NORM || row.shape == ShapeRule::BATCH_NORM) {
    std::vector<Operand> out = results_like(inputs, 1, 2);  // dx, dscale
    if (row.outputs == 3) out.push_back(out.back());        // dbias
    return out;
  }
  if (row.shape == ShapeRule::CHANNEL)
    return std::vector<Operand>(2, {.dtype = TN_DTYPE_f32, .dims = {inputs[0].dims[1]}});
  if (row.outputs != 1) return {};
  const uint32_t type = row.shape == ShapeRule::BROADCAST ? elementwise_type(row, inputs, node)
                        : row.dtypes == DtypeRule::LOOKUP ? inputs[1].dtype
                                                          : inputs[0].dtype;
  return {{.dtype = type, .dims = one_result(row, inputs, node)}};
}

std::vector<AttributeValue> completed(const Row& row, std::vector<AttributeValue> given) {
  for (const AttributeRow& known : attributes_of(row)) {
    const bool there = std::any_of(given.begin(), given.end(),
                                   [&](const AttributeValue& one) { return one.name == known.name; });
    if (!there) given.push_back(default_attribute(known));
  }
  std::sort(given.begin(), given.end(),
            [](const AttributeValue& a, const AttributeValue& b) { return a.name < b.name; });
  return given;
}

}  // namespace tenon::conform
