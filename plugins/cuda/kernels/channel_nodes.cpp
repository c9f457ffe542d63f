// SPDX-License-Identifier: Apache-2.0
// channel_nodes.cpp: tensors and nodes in the place of a batch norm.
//
// Invariant: after every call the view is whole: its lists are those of the nodes added so far.
#include "channel_nodes.hpp"

#include "literal.hpp"

#include <algorithm>

namespace tenon::cuda {

namespace {

tn_attribute real_attribute(const char* name, double value) {
  return {.name = name,
          .kind = TN_ATTRIBUTE_F64,
          .reserved = 0,
          .count = 0,
          .i64 = 0,
          .f64 = value,
          .data = nullptr};
}
tn_attribute integer_attribute(const char* name, uint32_t kind, int64_t value) {
  return {.name = name, .kind = kind, .reserved = 0, .count = 0, .i64 = value, .f64 = 0, .data = nullptr};
}

}  // namespace

bool is_batch_norm(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_batch_norm_train:
    case TN_OP_batch_norm_infer:
    case TN_OP_batch_norm_grad:
    case TN_OP_batch_norm_stats:
    case TN_OP_batch_norm_apply:
    case TN_OP_batch_norm_grad_stats:
    case TN_OP_batch_norm_grad_apply:
      return true;
    default:
      return false;
  }
}

ChannelNodes::ChannelNodes(const FragmentView& fragment)
    : raw_(fragment.raw()), tensors_(fragment.tensors().begin(), fragment.tensors().end()) {
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    const NodeView node(fragment, n);
    if (is_batch_norm(node.op())) {
      dims_.assign(node.dims(0).begin(), node.dims(0).end());
      computing_ = node.in(0).dtype() == TN_DTYPE_f64 ? TN_DTYPE_f64 : TN_DTYPE_f32;
      count_ = static_cast<uint64_t>(dims_[0]);
      for (size_t i = 2; i < dims_.size(); ++i) count_ *= static_cast<uint64_t>(dims_[i]);
      spell_out_channels(node, *this);
    } else {
      nodes_.push_back(node.raw());
      const auto made_of_sums = [&](uint32_t input) {
        return std::ranges::find(statistics_, input) != statistics_.end();
      };
      if (std::any_of(node.raw().inputs, node.raw().inputs + node.inputs(), made_of_sums))
        statistics_.push_back(node.raw().outputs[0]);
    }
    refresh();
  }
}

uint32_t ChannelNodes::find(const Recipe& recipe) const {
  const auto found = remembered_.find(recipe);
  return found != remembered_.end() ? found->second : TN_ABSENT;
}
uint32_t ChannelNodes::remember(Recipe recipe, uint32_t tensor) {
  remembered_.emplace(std::move(recipe), tensor);
  return tensor;
}

void ChannelNodes::refresh() noexcept {
  raw_.tensors = tensors_.data();
  raw_.tensor_count = static_cast<uint32_t>(tensors_.size());
  raw_.nodes = nodes_.data();
  raw_.node_count = static_cast<uint32_t>(nodes_.size());
}

Dims ChannelNodes::dims_of(uint32_t tensor) const {
  const auto dims = TensorView(tensors_[tensor]).dims();
  return {dims.begin(), dims.end()};
}

uint32_t ChannelNodes::add_tensor(uint32_t dtype, Dims dims) {
  const Dims& held = numbers_.emplace_back(std::move(dims));
  tn_tensor made{};
  made.dtype = dtype;
  made.rank = static_cast<uint32_t>(held.size());
  made.dims = held.data();
  tensors_.push_back(made);
  refresh();
  return static_cast<uint32_t>(tensors_.size() - 1);
}

void ChannelNodes::add_node(uint32_t op, std::initializer_list<uint32_t> inputs, uint32_t output,
                            std::vector<tn_attribute> attributes) {
  std::vector<uint32_t>& operands = operands_.emplace_back(inputs);
  operands.push_back(output);
  const auto& held = attributes_.emplace_back(std::move(attributes));
  tn_node made{};
  made.op = op;
  made.version = author::op_row(op).version;
  made.input_count = static_cast<uint32_t>(inputs.size());
  made.output_count = 1;
  made.inputs = operands.data();
  made.outputs = operands.data() + inputs.size();
  made.attributes = held.data();
  made.attribute_count = static_cast<uint32_t>(held.size());
  nodes_.push_back(made);
  refresh();
}

tn_attribute ChannelNodes::integers(const char* name, Dims values) {
  const Dims& held = numbers_.emplace_back(std::move(values));
  return {.name = name,
          .kind = TN_ATTRIBUTE_I64S,
          .reserved = 0,
          .count = held.size(),
          .i64 = 0,
          .f64 = 0,
          .data = held.data()};
}

uint32_t ChannelNodes::compute(uint32_t op, std::initializer_list<uint32_t> inputs) {
  Recipe recipe{op, inputs};
  if (const uint32_t before = find(recipe); before != TN_ABSENT) return before;
  Dims dims;
  for (const uint32_t input : inputs) {
    const Dims other = dims_of(input);
    if (other.size() > dims.size()) dims.insert(dims.begin(), other.size() - dims.size(), 1);
    for (size_t i = 0; i < other.size(); ++i) {
      int64_t& dim = dims[dims.size() - other.size() + i];
      if (dim == 1) dim = other[i];
    }
  }
  const uint32_t made =
      add_tensor(op == TN_OP_is_finite ? uint32_t{TN_DTYPE_bool} : computing_, std::move(dims));
  add_node(op, inputs, made);
  return remember(std::move(recipe), made);
}

uint32_t ChannelNodes::scale(uint32_t x, double by, double bias) {
  const uint32_t made = add_tensor(computing_, dims_of(x));
  add_node(TN_OP_scale, {x}, made, {real_attribute("bias", bias), real_attribute("scale", by)});
  return made;
}

uint32_t ChannelNodes::cast(uint32_t tensor, uint32_t dtype) {
  if (tensors_[tensor].dtype == dtype) return tensor;
  Recipe recipe{TN_OP_cast, {tensor, dtype}};
  if (const uint32_t before = find(recipe); before != TN_ABSENT) return before;
  const uint32_t made = add_tensor(dtype, dims_of(tensor));
  add_node(TN_OP_cast, {tensor}, made, {integer_attribute("dtype", TN_ATTRIBUTE_DTYPE, dtype)});
  return remember(std::move(recipe), made);
}

uint32_t ChannelNodes::fold(uint32_t op, uint32_t x) {
  Dims axes{0};
  for (size_t i = 2; i < dims_.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const uint32_t made = add_tensor(computing_, {dims_[1]});
  sums_.push_back(static_cast<uint32_t>(nodes_.size()));
  add_node(op, {x}, made,
           {integers("axes", std::move(axes)), integer_attribute("keepdims", TN_ATTRIBUTE_I64, 0)});
  return made;
}

uint32_t ChannelNodes::sample(uint32_t x, int64_t third) {
  Dims begin(dims_.size()), end = dims_, step(dims_.size(), 1);
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (i == 1) continue;
    begin[i] = dims_[i] * (2 * third + 1) / 6;
    end[i] = begin[i] + 1;
  }
  Dims made_dims(dims_.size(), 1);
  made_dims[1] = dims_[1];
  const uint32_t made = add_tensor(computing_, std::move(made_dims));
  add_node(TN_OP_slice, {x}, made,
           {integers("begin", std::move(begin)), integers("end", std::move(end)),
            integers("step", std::move(step))});
  return made;
}

uint32_t ChannelNodes::of_channel(uint32_t tensor) {
  const uint32_t made = add_tensor(tensors_[tensor].dtype, {dims_[1]});
  add_node(TN_OP_reshape, {tensor}, made, {integers("shape", {dims_[1]})});
  return made;
}

uint32_t ChannelNodes::along(uint32_t tensor) {
  Recipe recipe{TN_OP_reshape, {tensor}};
  if (const uint32_t before = find(recipe); before != TN_ABSENT) return before;
  Dims shape(dims_.size() - 1, 1);
  shape[0] = dims_[1];
  const uint32_t made = add_tensor(tensors_[tensor].dtype, shape);
  add_node(TN_OP_reshape, {tensor}, made, {integers("shape", std::move(shape))});
  return remember(std::move(recipe), made);
}

uint32_t ChannelNodes::number(double value) {
  const uint64_t& bits = constants_.emplace_back(bits_of(computing_, value));
  const uint32_t made = add_tensor(computing_, {});
  tensors_[made].flags = TN_TENSOR_CONSTANT;
  tensors_[made].constant = &bits;
  tensors_[made].constant_bytes = bytes_of(computing_);
  return made;
}

uint32_t ChannelNodes::keep(uint32_t tensor) {
  kept_.push_back(tensor);
  return tensor;
}

void ChannelNodes::give(uint32_t from, uint32_t to, bool statistic) {
  const uint32_t dtype = tensors_[to].dtype;
  if (dtype == tensors_[from].dtype)
    add_node(TN_OP_identity, {from}, to);
  else
    add_node(TN_OP_cast, {from}, to, {integer_attribute("dtype", TN_ATTRIBUTE_DTYPE, dtype)});
  if (statistic) statistics_.push_back(to);
}

}  // namespace tenon::cuda
