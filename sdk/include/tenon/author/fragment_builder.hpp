// SPDX-License-Identifier: Apache-2.0
// fragment_builder.hpp: writing fragments by hand, for tests and tools of plugin authors.
//
//   FragmentBuilder f("a + b");
//   const uint32_t a = f.input(TN_DTYPE_f32, {64}), b = f.input(TN_DTYPE_f32, {64});
//   const uint32_t c = f.output(TN_DTYPE_f32, {64});
//   f.node(TN_OP_add, {a, b}, {c});
//   device->supports(f.fragment(), answer);
//
// Invariant: the fragment points into its builder and is good until the builder changes or dies. Its identity
// stays zero: only a host computes one.
#pragma once

#include <tenon/author/names.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace tenon::author {

class FragmentBuilder {
 public:
  // A node under construction; attributes may come in any order.
  class Node {
   public:
    Node& integer(std::string name, int64_t value) {
      add(std::move(name), TN_ATTRIBUTE_I64).i64 = value;
      return *this;
    }
    Node& real(std::string name, double value) {
      add(std::move(name), TN_ATTRIBUTE_F64).f64 = value;
      return *this;
    }
    Node& dtype(std::string name, uint32_t value) {
      add(std::move(name), TN_ATTRIBUTE_DTYPE).i64 = static_cast<int64_t>(value);
      return *this;
    }
    Node& string(std::string name, std::string_view value) {
      return list(std::move(name), TN_ATTRIBUTE_STRING, value.size(), value.data(), 1);
    }
    Node& integers(std::string name, const std::vector<int64_t>& values) {
      return list(std::move(name), TN_ATTRIBUTE_I64S, values.size(), values.data(), sizeof(int64_t));
    }
    Node& reals(std::string name, const std::vector<double>& values) {
      return list(std::move(name), TN_ATTRIBUTE_F64S, values.size(), values.data(), sizeof(double));
    }

   private:
    friend class FragmentBuilder;
    struct Attribute {
      std::string name;
      std::vector<char> data;
      tn_attribute raw;
    };
    tn_attribute& add(std::string name, uint32_t kind) {
      attributes_.push_back({std::move(name), {}, tn_attribute{}});
      attributes_.back().raw.kind = kind;
      return attributes_.back().raw;
    }
    Node& list(std::string name, uint32_t kind, size_t count, const void* values, size_t each) {
      const char* first = static_cast<const char*>(values);
      add(std::move(name), kind).count = count;
      attributes_.back().data.assign(first, first + count * each);
      return *this;
    }
    tn_node finish() {
      std::sort(attributes_.begin(), attributes_.end(),
                [](const auto& a, const auto& b) { return a.name < b.name; });
      raw_attributes_.clear();
      for (const Attribute& a : attributes_) {
        raw_attributes_.push_back(a.raw);
        raw_attributes_.back().name = a.name.c_str();
        raw_attributes_.back().data = a.data.empty() ? nullptr : a.data.data();
      }
      tn_node out{};
      out.op = op_;
      out.version = op_row(op_).version;
      out.input_count = static_cast<uint32_t>(inputs_.size());
      out.output_count = static_cast<uint32_t>(outputs_.size());
      out.attribute_count = static_cast<uint32_t>(raw_attributes_.size());
      out.inputs = inputs_.data();
      out.outputs = outputs_.data();
      out.attributes = raw_attributes_.data();
      return out;
    }

    uint32_t op_ = TN_OP_NONE;
    std::vector<uint32_t> inputs_{}, outputs_{};
    std::vector<Attribute> attributes_{};
    std::vector<tn_attribute> raw_attributes_;
  };

  explicit FragmentBuilder(std::string name = "test") : name_(std::move(name)) {}
  FragmentBuilder(const FragmentBuilder&) = delete;
  FragmentBuilder& operator=(const FragmentBuilder&) = delete;

  // A tensor between nodes; empty strides mean dense. Returns its index.
  uint32_t tensor(uint32_t dtype, std::vector<int64_t> dims, std::vector<int64_t> strides = {}) {
    tensors_.push_back({dtype, std::move(dims), std::move(strides), {}, false});
    return static_cast<uint32_t>(tensors_.size() - 1);
  }
  uint32_t input(uint32_t dtype, std::vector<int64_t> dims, std::vector<int64_t> strides = {}) {
    inputs_.push_back(tensor(dtype, std::move(dims), std::move(strides)));
    return inputs_.back();
  }
  uint32_t output(uint32_t dtype, std::vector<int64_t> dims, std::vector<int64_t> strides = {}) {
    outputs_.push_back(tensor(dtype, std::move(dims), std::move(strides)));
    return outputs_.back();
  }
  // A tensor whose bytes are part of the fragment.
  uint32_t constant(uint32_t dtype, std::vector<int64_t> dims, std::vector<std::byte> bytes) {
    const uint32_t index = tensor(dtype, std::move(dims));
    tensors_[index].constant = std::move(bytes);
    tensors_[index].is_constant = true;
    return index;
  }
  Node& node(uint32_t op, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs) {
    Node& made = nodes_.emplace_back();
    made.op_ = op;
    made.inputs_ = std::move(inputs);
    made.outputs_ = std::move(outputs);
    return made;
  }
  // Output `output` may share the span of input `input`; both count within their lists.
  void alias(uint32_t input, uint32_t output) { aliases_.push_back({input, output}); }

  const tn_fragment& fragment() {
    raw_tensors_.clear();
    for (const Tensor& t : tensors_) raw_tensors_.push_back(raw(t));
    raw_nodes_.clear();
    for (Node& node : nodes_) raw_nodes_.push_back(node.finish());
    fragment_ = {};
    fragment_.size = sizeof fragment_;
    fragment_.name = name_.c_str();
    fragment_.tensors = raw_tensors_.data();
    fragment_.nodes = raw_nodes_.data();
    fragment_.inputs = inputs_.data();
    fragment_.outputs = outputs_.data();
    fragment_.aliases = aliases_.data();
    fragment_.tensor_count = static_cast<uint32_t>(raw_tensors_.size());
    fragment_.node_count = static_cast<uint32_t>(raw_nodes_.size());
    fragment_.input_count = static_cast<uint32_t>(inputs_.size());
    fragment_.output_count = static_cast<uint32_t>(outputs_.size());
    fragment_.alias_count = static_cast<uint32_t>(aliases_.size());
    return fragment_;
  }

 private:
  struct Tensor {
    uint32_t dtype;
    std::vector<int64_t> dims, strides;
    std::vector<std::byte> constant;
    bool is_constant = false;
  };
  static tn_tensor raw(const Tensor& t) {
    tn_tensor out{};
    out.dtype = t.dtype;
    out.rank = static_cast<uint32_t>(t.dims.size());
    out.dims = t.dims.data();
    out.strides = t.strides.empty() ? nullptr : t.strides.data();
    out.flags = t.is_constant ? TN_TENSOR_CONSTANT : 0;
    out.constant = t.is_constant ? t.constant.data() : nullptr;
    out.constant_bytes = t.constant.size();
    return out;
  }

  std::string name_;
  std::vector<Tensor> tensors_;
  std::deque<Node> nodes_;
  std::vector<uint32_t> inputs_, outputs_;
  std::vector<tn_alias> aliases_;
  std::vector<tn_tensor> raw_tensors_;
  std::vector<tn_node> raw_nodes_;
  tn_fragment fragment_{};
};

}  // namespace tenon::author
