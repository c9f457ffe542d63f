// SPDX-License-Identifier: Apache-2.0
// node_view.hpp: one node of a fragment: its operands by position, its attributes, and the words for what is wrong with it.
//
// Invariant: looking costs no allocation; only a message does. in, out, integer, real and integers may be asked for what
// is there: operands that `has` or `gives` tells of, attributes that op_rules.hpp has found.
#pragma once

#include <tenon/author/fragment_view.hpp>
#include <tenon/author/text.hpp>
#include <tenon/result.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>

namespace tenon::author {

// Dims in the making, without an allocation. One more than a tensor may have fits, so that a rank of 9 shows.
class DimList {
 public:
  DimList() = default;
  DimList(std::initializer_list<int64_t> dims) noexcept {
    for (const int64_t dim : dims) push_back(dim);
  }
  explicit DimList(std::span<const int64_t> dims) noexcept {
    for (const int64_t dim : dims) push_back(dim);
  }
  static DimList ones(size_t rank) noexcept {
    DimList out;
    for (size_t i = 0; i < rank; ++i) out.push_back(1);
    return out;
  }

  void push_back(int64_t dim) noexcept {
    if (rank_ < dims_.size()) dims_[rank_++] = dim;
  }
  size_t size() const noexcept { return rank_; }
  int64_t& operator[](size_t i) noexcept { return dims_[i]; }
  int64_t operator[](size_t i) const noexcept { return dims_[i]; }
  operator std::span<const int64_t>() const noexcept { return {dims_.data(), rank_}; }

 private:
  std::array<int64_t, TN_MAX_RANK + 1> dims_{};
  size_t rank_ = 0;
};

inline bool same_dims(std::span<const int64_t> a, std::span<const int64_t> b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// "[2,3]" [any-thread; does not block; may throw bad_alloc]
inline std::string words(std::span<const int64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += text(i == 0 ? "" : ",", dims[i]);
  return out + "]";
}

// "node 3 (add)" [any-thread; does not block; may throw bad_alloc]
inline std::string node_name(const FragmentView& fragment, uint32_t node) {
  return text("node ", node, " (", op_name(fragment.nodes()[node].op), ")");
}

class NodeView {
 public:
  NodeView(const FragmentView& fragment, uint32_t index) noexcept
      : fragment_(fragment), index_(index), node_(&fragment.nodes()[index]) {}

  const tn_node& raw() const noexcept { return *node_; }
  uint32_t op() const noexcept { return node_->op; }
  uint32_t inputs() const noexcept { return node_->input_count; }
  uint32_t outputs() const noexcept { return node_->output_count; }
  // Whether the operand is listed and not left out.
  bool has(uint32_t i) const noexcept { return i < inputs() && node_->inputs[i] != TN_ABSENT; }
  bool gives(uint32_t i) const noexcept { return i < outputs() && node_->outputs[i] != TN_ABSENT; }
  TensorView in(uint32_t i) const noexcept { return fragment_.tensor(node_->inputs[i]); }
  TensorView out(uint32_t i) const noexcept { return fragment_.tensor(node_->outputs[i]); }
  std::span<const int64_t> dims(uint32_t i) const noexcept { return in(i).dims(); }  // of an input

  int64_t integer(std::string_view name) const noexcept { return *attribute_i64(*node_, name); }
  double real(std::string_view name) const noexcept { return *attribute_f64(*node_, name); }
  std::span<const int64_t> integers(std::string_view name) const noexcept {
    return *attribute_i64s(*node_, name);
  }

  // What no device could run, and what this one does not. [any-thread; does not block; cannot fail]
  [[gnu::cold, gnu::noinline]] Status malformed(std::string_view reason) const {
    return Status(TN_INVALID, text(node_name(fragment_, index_), ": ", reason));
  }
  [[gnu::cold, gnu::noinline]] Status unsupported(std::string_view reason) const {
    return Status(TN_UNSUPPORTED, text(node_name(fragment_, index_), ": ", reason));
  }

 private:
  FragmentView fragment_;
  uint32_t index_;
  const tn_node* node_;
};

}  // namespace tenon::author
