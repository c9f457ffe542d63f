// SPDX-License-Identifier: Apache-2.0
// rules.hpp: whether a fragment can run under a profile, and if not, why.
//
// Invariant: what passes here a kernel runs without looking again. TN_UNSUPPORTED is what this device refuses, TN_INVALID
// what ops.def forbids; both name the node and the values.
#pragma once

#include "engine/profile.hpp"
#include "tensor.hpp"

namespace tenon::sim {

// [any-thread; does not block; may fail]
Status check_fragment(const author::FragmentView& fragment, const Profile& profile);

// "[2,3]"
std::string words(const Dims& dims);

// One node under the magnifier; shapes.cpp and shapes_network.cpp have the shape column of
// ops.def, rules.cpp the rest.
class Inquiry {
 public:
  Inquiry(const author::FragmentView& fragment, uint32_t index);

  Status run(const Profile& profile) const;

 private:
  Status no(const std::string& reason) const;         // TN_UNSUPPORTED
  Status malformed(const std::string& reason) const;  // TN_INVALID

  size_t inputs() const noexcept { return node_.input_count; }
  bool has(size_t i) const noexcept { return i < node_.input_count && node_.inputs[i] != TN_ABSENT; }
  bool gives(size_t i) const noexcept { return i < node_.output_count && node_.outputs[i] != TN_ABSENT; }
  author::TensorView in(size_t i) const { return fragment_.tensor(node_.inputs[i]); }
  author::TensorView out(size_t i) const { return fragment_.tensor(node_.outputs[i]); }
  Dims dims(size_t i) const { return {in(i).dims().begin(), in(i).dims().end()}; }
  int64_t integer(std::string_view name) const { return *author::attribute_i64(node_, name); }
  Dims integers(std::string_view name) const;

  Status check_known() const;
  Status check_attributes() const;
  Status check_dtypes() const;
  Status check_layouts(const Profile& profile) const;
  Status wrong_dtypes(std::string_view rule) const;
  bool one_float_or_f32(uint32_t type) const;

  Status check_shapes() const;
  Status expect(size_t output, const Dims& dims) const;
  Status expect_input(size_t input, const Dims& dims) const;
  Status expect_rank(size_t input, size_t rank) const;
  Status scalars(size_t first) const;
  Result<int64_t> axis(int64_t given, size_t rank) const;
  Result<Dims> broadcast(const std::vector<Dims>& all) const;
  Result<Dims> slide(const Dims& x, int64_t channels, const Dims& sizes) const;
  Status check_broadcast() const;
  Status check_reduce() const;
  Status check_matmul() const;
  Status check_conv() const;
  Status check_pool() const;
  Status check_channels() const;
  Status check_rows() const;
  Status check_same() const;
  Status check_attention() const;
  Status check_indexing() const;
  Status check_transpose() const;
  Status check_reshape() const;
  Status check_concat() const;
  Status check_slice() const;
  Status check_pad() const;
  Status check_update() const;

  const author::FragmentView& fragment_;
  uint32_t index_;
  const tn_node& node_;
};

}  // namespace tenon::sim
