// SPDX-License-Identifier: Apache-2.0
// view.hpp: a tensor as an order of elements: "the i-th element lies at this offset".
//
// Broadcasting, transposing, reshaping and reducing are all ways to order the elements of one tensor, so a kernel needs
// one way to read and one to write.
// Invariant: a view is collapsed (no dims of 1, neighbours merged where they can be), so a dense tensor has rank 1 or 0.
#pragma once

#include <tenon/author/fragment_view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace tenon::cpu {

using author::TensorView;

// Whether numpy's rules repeat the tensor to `dims`.
inline bool repeats_over(TensorView tensor, std::span<const int64_t> dims) noexcept {
  if (tensor.rank() > dims.size()) return false;
  const size_t missing = dims.size() - tensor.rank();
  for (uint32_t i = 0; i < tensor.rank(); ++i) {
    if (tensor.dims()[i] != 1 && tensor.dims()[i] != dims[missing + i]) return false;
  }
  return true;
}

// The strides of a tensor of these dims without gaps.
inline std::array<int64_t, TN_MAX_RANK> dense_strides(std::span<const int64_t> dims) noexcept {
  std::array<int64_t, TN_MAX_RANK> out{};
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) out[i] = step;
  return out;
}

class View {
 public:
  View() = default;
  // The tensor in its own logical order.
  explicit View(TensorView tensor);
  // The same, repeated to `dims` by numpy's rules. The tensor must be broadcastable to them.
  View(TensorView tensor, std::span<const int64_t> dims);
  // The same with the dims in another order, outermost first.
  View(TensorView tensor, std::span<const int64_t> dims, std::span<const uint32_t> order);
  // The tensor with its dims in another order.
  static View permuted(TensorView tensor, std::span<const uint32_t> order);
  // From raw parts; strides in elements.
  View(uint32_t dtype, std::span<const int64_t> dims, std::span<const int64_t> strides);
  // Dense elements.
  static View dense(uint32_t dtype, uint64_t count);

  uint32_t dtype() const noexcept { return dtype_; }
  uint32_t element_bytes() const noexcept { return author::dtype_bits(dtype_) / 8; }
  uint64_t count() const noexcept { return count_; }
  uint32_t rank() const noexcept { return rank_; }
  int64_t dim(uint32_t i) const noexcept { return dims_[i]; }
  int64_t stride(uint32_t i) const noexcept { return strides_[i]; }
  bool contiguous() const noexcept { return rank_ == 0 || (rank_ == 1 && strides_[0] == 1); }
  // One element, over and over.
  bool uniform() const noexcept { return rank_ == 0 || (rank_ == 1 && strides_[0] == 0); }
  // Whether element i lies at the same byte in both, for every i.
  bool same_places(const View& other) const noexcept {
    return element_bytes() == other.element_bytes() && count_ == other.count_ && rank_ == other.rank_ &&
           dims_ == other.dims_ && strides_ == other.strides_;
  }

  // Where element i lies, in elements; i is below the count.
  int64_t offset_of(uint64_t i) const noexcept {
    int64_t offset = 0;
    for (uint32_t d = rank_; d-- > 0;) {
      const auto dim = static_cast<uint64_t>(dims_[d]);
      offset += static_cast<int64_t>(d > 0 ? i % dim : i) * strides_[d];
      if (d > 0) i /= dim;
    }
    return offset;
  }

  // Calls run(offset, length, stride) for the elements [begin, begin + n), in order; offsets and strides in elements.
  template <class Run>
  void for_runs(uint64_t begin, uint64_t n, Run&& run) const {
    if (rank_ <= 1) {
      const int64_t step = rank_ == 0 ? 0 : strides_[0];
      run(static_cast<int64_t>(begin) * step, n, step);
      return;
    }
    walk(begin, n, run);
  }

 private:
  void push(int64_t dim, int64_t stride) noexcept;

  template <class Run>
  void walk(uint64_t begin, uint64_t n, Run& run) const {
    const uint32_t last = rank_ - 1;
    std::array<int64_t, TN_MAX_RANK> at{};
    int64_t offset = 0;
    for (uint32_t i = rank_; i-- > 0;) {
      at[i] = static_cast<int64_t>(begin % static_cast<uint64_t>(dims_[i]));
      begin /= static_cast<uint64_t>(dims_[i]);
      offset += at[i] * strides_[i];
    }
    while (n > 0) {
      const uint64_t length = std::min<uint64_t>(n, static_cast<uint64_t>(dims_[last] - at[last]));
      run(offset, length, strides_[last]);
      n -= length;
      offset += static_cast<int64_t>(length) * strides_[last];
      at[last] += static_cast<int64_t>(length);
      for (uint32_t i = last; i > 0 && at[i] == dims_[i]; --i) {
        offset += strides_[i - 1] - at[i] * strides_[i];
        at[i] = 0;
        ++at[i - 1];
      }
    }
  }

  uint32_t dtype_ = 0;
  uint32_t rank_ = 0;
  uint64_t count_ = 1;
  std::array<int64_t, TN_MAX_RANK> dims_{};
  std::array<int64_t, TN_MAX_RANK> strides_{};
};

}  // namespace tenon::cpu
