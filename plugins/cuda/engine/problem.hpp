// SPDX-License-Identifier: Apache-2.0
// problem.hpp: a product as cuBLASLt's descriptors, what the library proposes for it, and one run of a proposal.
//
// Where the vector of a bias and gelu's input lie is part of a descriptor, so those are set for a run and under a mutex.
// Invariant: a proposal is run only on addresses of the alignment that it was asked for, with the workspace it asks for; sums
// are in f32 (f64 for f64), in an order that does not change from run to run.
#pragma once

#include "cublaslt.hpp"

#include "../kernels/product.hpp"

#include <array>
#include <mutex>
#include <vector>

namespace tenon::cuda {

// A way to compute a problem.
struct Pick {
  cublasLtMatmulAlgo_t algorithm{};
  uint64_t workspace_bytes = 0;
  double cost_ns = 0;  // measured; 0: never
};

class Problem {
 public:
  // The context is current in all of these. [any-thread; may block; may fail]
  static Result<std::unique_ptr<Problem>> make(std::shared_ptr<const CublasLtHandle> handle,
                                               const Product& product, bool tf32);
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  ~Problem();

  // At most `most` proposals, the likeliest first; none is a legal answer. [any-thread; may block; may fail]
  Result<std::vector<Pick>> proposals(uint32_t alignment, uint64_t workspace_limit, int most);
  // Whether the library takes a pick that was kept, for such addresses. [any-thread; may block; may fail]
  Status check(const Pick& pick, uint32_t alignment);
  // Enqueues all calls of the product. `places` are those of its bindings. [stream's thread; does not block; may fail]
  Status run(CUstream stream, const Pick& pick, const CUdeviceptr* places, CUdeviceptr workspace);

  const Product& product() const noexcept { return product_; }
  const std::shared_ptr<const CublasLtHandle>& handle() const noexcept { return handle_; }

 private:
  Problem(std::shared_ptr<const CublasLtHandle> handle, const Product& product)
      : handle_(std::move(handle)), product_(product) {}
  const CublasLt& library() const noexcept { return handle_->library(); }
  Status describe(bool tf32);
  Status describe_operation(bool tf32);
  Status describe_matrix(const Matrix& matrix, cublasLtMatrixLayout_t& out) const;
  Status set(cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes);
  Status point(CUdeviceptr bias, CUdeviceptr aux);
  Status call(CUstream stream, const Pick& pick, const CUdeviceptr* places, CUdeviceptr workspace,
              const std::array<int64_t, most_batch_dims>& at);
  CUdeviceptr address(const Matrix& matrix, const CUdeviceptr* places,
                      const std::array<int64_t, most_batch_dims>& at) const noexcept;

  std::shared_ptr<const CublasLtHandle> handle_;
  const Product product_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, added_ = nullptr, result_ = nullptr;
  std::mutex mutex_;  // of what `point` changes
};

}  // namespace tenon::cuda
