// SPDX-License-Identifier: Apache-2.0
// cublaslt.hpp: what the stand-in of cuBLASLt knows of each object, and the one state behind its calls.
//
// Invariant: a descriptor is a number until it is looked up, so one that is gone or was never made is told from a live one.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace fakecublaslt {

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t lead = 0, batch_stride = 0;
  int32_t batch = 1;
};

struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  int32_t turn_a = CUBLAS_OP_N, turn_b = CUBLAS_OP_N, bias_type = -1;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  uint64_t bias = 0, aux = 0;
  int64_t aux_lead = 0, aux_stride = 0;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

// Ends a call with this status.
struct Refused {
  cublasStatus_t status;
};
inline void require(bool holds, cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
  if (!holds) throw Refused{status};
}

// Objects by the pointer that stands for them.
template <class Pointer, class Object>
class Objects {
 public:
  explicit Objects(uint64_t kind) : next_(kind << 40) {}
  Pointer add(Object object) {
    next_ += 16;
    all_.emplace(next_, object);
    return reinterpret_cast<Pointer>(next_);
  }
  Object& get(Pointer pointer) {
    const auto found = all_.find(reinterpret_cast<uint64_t>(pointer));
    require(found != all_.end());
    return found->second;
  }
  void remove(Pointer pointer) { require(all_.erase(reinterpret_cast<uint64_t>(pointer)) == 1); }
  size_t count() const { return all_.size(); }

 private:
  uint64_t next_;
  std::map<uint64_t, Object> all_;
};

// FAKECUBLASLT: "candidates=N,fast=N,version=N,narrow=0".
struct Settings {
  uint64_t candidates = 20;    // what heuristics find at most
  uint64_t fast = UINT64_MAX;  // all algorithms but this one take two milliseconds
  uint64_t version = 130100;
  uint64_t narrow = 1;  // 0: no algorithm for addresses that are no multiples of 16
};

struct State {
  std::mutex mutex{};
  Settings settings{};
  std::string log{};   // a line for each call of interest, and for each product that ran
  std::string told{};  // as it was last given out
  Objects<cublasLtHandle_t, uint64_t> handles{0x21};  // the context that each was made under
  Objects<cublasLtMatmulDesc_t, Operation> operations{0x22};
  Objects<cublasLtMatrixLayout_t, Layout> layouts{0x23};
  Objects<cublasLtMatmulPreference_t, Preference> preferences{0x24};
};

// Never destroyed: products run until the process ends.
State& state();

template <class Body>
cublasStatus_t call(Body&& body) noexcept {
  State& s = state();
  try {
    const std::lock_guard lock(s.mutex);
    body(s);
    return CUBLAS_STATUS_SUCCESS;
  } catch (const Refused& refused) {
    return refused.status;
  }
}

}  // namespace fakecublaslt
