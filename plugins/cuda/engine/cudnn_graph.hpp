// SPDX-License-Identifier: Apache-2.0
// cudnn_graph.hpp: a graph of cuDNN's in the making: its tensors, and the operations between them.
//
// A tensor's number is its binding's in the fragment. What lies between operations has numbers from first_number_between on;
// constants and scratch have those that the graph's maker chooses between.
// Invariant: operations are computed in f32 unless a call says otherwise, and stand in the order in which they were added.
#pragma once

#include "cudnn.hpp"

#include "../kernels/placed.hpp"

namespace tenon::cuda {

inline constexpr int64_t first_number_between = 100;

using Four = std::array<int64_t, 4>;

// Row-major without gaps.
Four dense(const Four& dims) noexcept;
// The type of f16, bf16 or f32. [any-thread; does not block; cannot fail]
cudnnDataType_t cudnn_type(uint32_t dtype) noexcept;

// A tensor of a graph: what it is, and its descriptor.
struct GraphTensor {
  int64_t number = -1;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Four dims{}, strides{};
  Descriptor descriptor{};
};

class CudnnGraph {
 public:
  // `alignment` is what the address of every binding will be a multiple of.
  CudnnGraph(const Cudnn& library, int64_t alignment) : library_(library), alignment_(alignment) {}

  // All of these: [owner's thread; may block; may fail]
  Result<GraphTensor> bound(const Placed& placed, cudnnDataType_t type);
  // What lies nowhere in memory.
  Result<GraphTensor> between(const Four& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Result<GraphTensor> between(const Four& dims, const Four& strides, cudnnDataType_t type);
  // What a launch gives room for.
  Result<GraphTensor> scratch(int64_t number, const Four& dims, cudnnDataType_t type);
  // One element, whose value a launch gives.
  Result<GraphTensor> constant(int64_t number, cudnnDataType_t type);

  struct Pointwise {
    cudnnPointwiseMode_t mode;
    const GraphTensor& x;
    const GraphTensor* b = nullptr;
    const GraphTensor* t = nullptr;  // chooses between x and b
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    int64_t axis = -1;
  };
  Status pointwise(const Pointwise& operation, const GraphTensor& y);
  Status matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c);
  Status reduce(cudnnReduceTensorOp_t how, const GraphTensor& x, const GraphTensor& y);
  Status reshape(const GraphTensor& x, const GraphTensor& y);
  // Any other operation, all of whose attributes are set.
  Status add(Descriptor operation);

  const Cudnn& library() const noexcept { return library_; }
  Result<Descriptor> finish();

 private:
  enum class Kind { bound, between, constant };
  Result<GraphTensor> tensor(GraphTensor form, Kind kind, int64_t alignment);

  const Cudnn& library_;
  const int64_t alignment_;
  int64_t next_number_ = first_number_between;
  std::vector<Descriptor> operations_{};
};

}  // namespace tenon::cuda
