// SPDX-License-Identifier: Apache-2.0
// gemm_batch.hpp: one operand's matrices in a batch of products.
//
// Invariant: a matrix that a broadcast repeats counts once.
#pragma once

#include "gemm.hpp"

namespace tenon::cpu {

inline uint64_t products_of(const Gemm& gemm) noexcept {
  uint64_t out = 1;
  for (uint32_t i = 0; i < gemm.batch_rank; ++i) out *= static_cast<uint64_t>(gemm.batch[i]);
  return out;
}

class Matrices {
 public:
  Matrices(const Gemm& gemm, const GemmOperand& operand) noexcept
      : rank_(gemm.batch_rank), extents_(gemm.batch), strides_(operand.batch) {
    for (uint32_t i = 0; i < rank_; ++i) {
      if (strides_[i] != 0)
        count_ *= static_cast<uint64_t>(extents_[i]);
      else if (extents_[i] > 1)
        shared_ = true;
    }
  }

  uint64_t count() const noexcept { return count_; }
  // Whether several products read one matrix.
  bool are_shared() const noexcept { return shared_; }
  // The matrix of a product of the batch.
  uint64_t of(uint64_t product) const noexcept {
    uint64_t matrix = 0, weight = 1;
    for (uint32_t i = rank_; i-- > 0;) {
      const auto extent = static_cast<uint64_t>(extents_[i]);
      if (strides_[i] != 0) {
        matrix += product % extent * weight;
        weight *= extent;
      }
      product /= extent;
    }
    return matrix;
  }
  // Where a matrix begins, in elements.
  int64_t offset(uint64_t matrix) const noexcept {
    int64_t out = 0;
    for (uint32_t i = rank_; i-- > 0;) {
      if (strides_[i] == 0) continue;
      const auto extent = static_cast<uint64_t>(extents_[i]);
      out += static_cast<int64_t>(matrix % extent) * strides_[i];
      matrix /= extent;
    }
    return out;
  }

 private:
  uint32_t rank_;
  std::array<int64_t, most_batch_dims> extents_, strides_;
  uint64_t count_ = 1;
  bool shared_ = false;
};

}  // namespace tenon::cpu
