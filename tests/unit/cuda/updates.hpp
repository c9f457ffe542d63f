// SPDX-License-Identifier: Apache-2.0
// updates.hpp: parameters and their updates, to be run as one fragment in place, or as a fragment each.
//
// Invariant: a run starts from the same bytes every time, whatever an earlier one wrote.
#pragma once

#include "world.hpp"

#include <tenon/author/aliases.hpp>
#include <tenon/author/half.hpp>
#include <tenon/author/op_update.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>

namespace cuda_test {

using Dims = std::vector<int64_t>;
using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

struct Tensor {
  uint32_t dtype;
  Dims dims, strides{};
  Bytes bytes{};

  uint64_t size() const { return tenon::author::dtype_bits(dtype) / 8; }
  uint64_t extent() const {
    uint64_t last = 0;
    int64_t step = 1;
    for (size_t i = dims.size(); i-- > 0; step *= dims[i]) {
      if (dims[i] == 0) return 0;
      last += static_cast<uint64_t>((dims[i] - 1) * (strides.empty() ? step : strides[i]));
    }
    return last + 1;
  }
  // Element `n` in memory.
  void set(uint64_t n, float value) {
    const double wide = value;
    const uint16_t half =
        dtype == TN_DTYPE_f16 ? tenon::author::to_f16(value).bits : tenon::author::to_bf16(value).bits;
    const void* const from = dtype == TN_DTYPE_f64   ? static_cast<const void*>(&wide)
                             : dtype == TN_DTYPE_f32 ? static_cast<const void*>(&value)
                                                     : &half;
    std::memcpy(bytes.data() + n * size(), from, size());
  }
  double at(uint64_t n) const {
    const std::byte* const from = bytes.data() + n * size();
    if (dtype == TN_DTYPE_f64) return *reinterpret_cast<const double*>(from);
    if (dtype == TN_DTYPE_f32) return *reinterpret_cast<const float*>(from);
    const uint16_t half = *reinterpret_cast<const uint16_t*>(from);
    return dtype == TN_DTYPE_f16 ? tenon::author::widen(tenon::author::F16{half})
                                 : tenon::author::widen(tenon::author::BF16{half});
  }
};
using Shared = std::shared_ptr<Tensor>;

inline Shared tensor(uint32_t dtype, Dims dims, Dims strides = {}) {
  auto out = std::make_shared<Tensor>(Tensor{dtype, std::move(dims), std::move(strides)});
  out->bytes.resize(out->extent() * out->size());
  return out;
}
inline Shared scalar(float value) {
  const Shared out = tensor(TN_DTYPE_f32, {});
  out->set(0, value);
  return out;
}
// Numbers between -2 and 2, or up to 2.
inline Shared random_tensor(uint32_t dtype, Dims dims, Random& random, Dims strides = {},
                            bool positive = false) {
  const Shared out = tensor(dtype, std::move(dims), std::move(strides));
  for (uint64_t i = 0; i < out->extent(); ++i) {
    const auto value = static_cast<float>(static_cast<int64_t>(random() % 4001) - 2000) / 1000;
    out->set(i, positive ? std::abs(value) : value);
  }
  return out;
}

// One node: absent operands are null; for each output the input it renews, or -1 for one left out.
struct Update {
  uint32_t op;
  std::vector<Shared> inputs;
  std::vector<int> renews;
  bool nesterov = false;
  double decay = 0.125;
};

// A fragment under construction, and the tensors behind its bindings.
class Group {
 public:
  FragmentBuilder builder{"group"};

  uint32_t input(const Shared& tensor) {
    if (tensor == nullptr) return TN_ABSENT;
    for (const auto& [made, index] : made_) {
      if (made == tensor) return index;
    }
    return index_[find(tensor)];
  }
  // An output in place of `renewed`, or in memory of its own.
  uint32_t output(const Shared& renewed, bool in_place) {
    const size_t from = find(renewed);
    if (in_place) builder.alias(static_cast<uint32_t>(from), static_cast<uint32_t>(outputs_.size()));
    outputs_.push_back({in_place ? from : SIZE_MAX, renewed->extent() * renewed->size()});
    return builder.output(renewed->dtype, renewed->dims, renewed->strides);
  }
  // `index` stands for what `tensor` has become inside.
  void made(const Shared& tensor, uint32_t index) { made_.emplace_back(tensor, index); }

  void add(const Update& update, bool in_place) {
    std::vector<uint32_t> in, out;
    for (const Shared& one : update.inputs) in.push_back(input(one));
    for (const int from : update.renews)
      out.push_back(from < 0 ? TN_ABSENT : output(update.inputs[static_cast<size_t>(from)], in_place));
    auto& node = builder.node(update.op, in, out).real("weight_decay", update.decay);
    if (update.op == TN_OP_momentum) node.real("momentum", 0.9).integer("nesterov", update.nesterov ? 1 : 0);
    if (tenon::author::optimizer_form(update.op).stepped)
      node.real("beta1", 0.9).real("beta2", 0.99).real("epsilon", 1e-6);
  }
  // Of every gradient what is divided by the scale, and whether all were finite, inside.
  void unscale(const std::vector<Update>& updates, const Shared& scale, const Shared& found_inf) {
    std::vector<uint32_t> in = {input(scale)}, out = {builder.tensor(TN_DTYPE_f32, {})};
    for (const Update& update : updates) {
      in.push_back(input(update.inputs[1]));
      out.push_back(builder.tensor(update.inputs[1]->dtype, update.inputs[1]->dims));
    }
    builder.node(TN_OP_check_finite_and_unscale, in, out);
    for (size_t i = 0; i < updates.size(); ++i) made(updates[i].inputs[1], out[i + 1]);
    made(found_inf, out[0]);
  }

  // The bytes that an in-place output has before a run.
  const Bytes& before(size_t output) const { return inputs_[outputs_[output].input]->bytes; }

  // What the outputs hold after a run of `kernel`, every tensor `shift` of its elements past a multiple of 16.
  std::vector<Bytes> run(tn_device* device, tn_stream* stream, tn_kernel* kernel, uint64_t shift = 0) {
    std::vector<Memory> memories;
    std::vector<tn_span> bindings;
    const auto bind = [&](uint64_t bytes, uint64_t element) {
      memories.push_back(allocate(device, bytes + 64));
      bindings.push_back(span(memories.back(), shift * element, bytes));
    };
    for (const Shared& one : inputs_) {
      bind(one->bytes.size(), one->size());
      copy(stream, bindings.back(), host_span(one->bytes.data(), one->bytes.size()));
    }
    for (const Output& one : outputs_) {
      if (one.input != SIZE_MAX)
        bindings.push_back(bindings[one.input]);
      else
        bind(one.bytes, 8);
    }
    const Memory room = allocate(device, workspace_bytes(kernel) + 1);
    launch(kernel, stream, bindings, span(room, 0, workspace_bytes(kernel)));
    std::vector<Bytes> out;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const tn_span& binding = bindings[inputs_.size() + i];
      out.emplace_back(binding.bytes);
      copy(stream, host_span(out.back().data(), binding.bytes), binding);
    }
    drain(stream);
    return out;
  }

 private:
  struct Output {
    size_t input;  // SIZE_MAX: not in place
    uint64_t bytes;
  };
  size_t find(const Shared& tensor) {
    const auto found = std::find(inputs_.begin(), inputs_.end(), tensor);
    if (found != inputs_.end()) return static_cast<size_t>(found - inputs_.begin());
    inputs_.push_back(tensor);
    index_.push_back(builder.input(tensor->dtype, tensor->dims, tensor->strides));
    return inputs_.size() - 1;
  }

  std::vector<Shared> inputs_{};
  std::vector<uint32_t> index_{};
  std::vector<std::pair<Shared, uint32_t>> made_{};
  std::vector<Output> outputs_{};
};

}  // namespace cuda_test
