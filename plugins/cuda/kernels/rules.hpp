// SPDX-License-Identifier: Apache-2.0
// rules.hpp: one node against the columns of ops.def, and against what the generator takes.
//
// TN_INVALID is what ops.def forbids, TN_UNSUPPORTED what is not written here; both name the node, the values and, where
// there is one, the way out. Nothing is allocated until something is wrong.
// Invariant: what passes here, trace and kernels take without looking again.
#pragma once

#include <tenon/author/fragment_view.hpp>
#include <tenon/result.hpp>

#include <array>
#include <initializer_list>

namespace tenon::cuda {

using author::FragmentView;
using author::TensorView;

// Dims without an allocation.
struct FixedDims {
  std::array<int64_t, TN_MAX_RANK + 1> at{};
  size_t rank = 0;

  FixedDims() = default;
  explicit FixedDims(std::span<const int64_t> dims) noexcept {
    for (const int64_t dim : dims) add(dim);
  }
  void add(int64_t dim) noexcept {
    if (rank < at.size()) at[rank++] = dim;
  }
  std::span<const int64_t> dims() const noexcept { return {at.data(), rank}; }
};

// "[2,3]"
std::string words(std::span<const int64_t> dims);

class NodeRules {
 public:
  NodeRules(const FragmentView& fragment, uint32_t index) noexcept
      : fragment_(fragment), index_(index), node_(fragment.nodes()[index]) {}

  // [any-thread; does not block; may fail]
  Status check() const;

 private:
  // rules.cpp: the op itself, its attributes and its dtypes.
  Status check_op() const;
  Status check_attributes() const;
  Status check_dtypes() const;
  Status wrong_dtypes(const char* rule) const;

  // shapes.cpp: the shape column.
  Status check_shapes() const;
  Status expect(std::span<const int64_t> dims) const;
  Status check_broadcast() const;
  Status check_fits(uint32_t input, std::span<const int64_t> dims) const;
  Status check_reduce() const;
  Status check_random() const;
  Status check_from_attribute() const;
  Status check_reshape() const;
  Status check_transpose() const;
  Status check_concat() const;
  Status check_slice() const;
  Status check_pad() const;
  Status check_one_hot() const;
  Status check_embedding() const;

  Status no(const std::string& reason) const;         // TN_UNSUPPORTED
  Status malformed(const std::string& reason) const;  // TN_INVALID
  TensorView in(uint32_t i) const noexcept { return fragment_.tensor(node_.inputs[i]); }
  TensorView out() const noexcept { return fragment_.tensor(node_.outputs[0]); }
  int64_t integer(const char* name) const noexcept { return *author::attribute_i64(node_, name); }
  std::span<const int64_t> integers(const char* name) const noexcept {
    return *author::attribute_i64s(node_, name);
  }

  const FragmentView& fragment_;
  uint32_t index_;
  const tn_node& node_;
};

}  // namespace tenon::cuda
