// SPDX-License-Identifier: Apache-2.0
// nccl_group.hpp: a group's parts as calls of NCCL: types and reductions in its numbers, exchanges as messages, what it lacks refused.
//
// What only moves is moved as bytes. Collectives are called in the group's order, then messages in theirs: ranks may list the two
// in different orders. What is empty is not called at all, on no rank.
// Invariant: nothing is coerced: a reduction is called with the very type, bools as bytes of 0 and 1.
#pragma once

#include "nccl_handle.hpp"
#include "part.hpp"

namespace tenon::cuda::comm {

class NcclGroup {
 public:
  NcclGroup(NcclHandle& handle, std::span<const Part> parts, CUdeviceptr word)
      : handle_(handle), parts_(parts), word_(word) {}

  // TN_UNSUPPORTED for a part that NCCL has no call for. [any-thread; does not block; may fail]
  static Status check(const Part& part);
  // Begins the group on `stream`, as one; the library may have more to do. [rank's thread; does not block; may fail]
  Status begin(CUstream stream, uint32_t size);
  // Once it is done with: the factors made for it. [rank's thread; does not block; may fail]
  Status end();

 private:
  Status make_factors(ncclComm_t comm);
  Status call_all(ncclComm_t comm, CUstream stream, uint32_t size) const;
  Status call(ncclComm_t comm, const Part& part, ncclRedOp_t reduction, CUstream stream, uint32_t size) const;
  Status reduce(ncclComm_t comm, const Part& part, ncclRedOp_t reduction, CUstream stream) const;
  Status exchange(ncclComm_t comm, const Part& part, CUstream stream, uint32_t size) const;

  NcclHandle& handle_;
  const std::span<const Part> parts_;
  const CUdeviceptr word_;                 // for barriers
  std::vector<ncclRedOp_t> reductions_{};  // of each part
};

}  // namespace tenon::cuda::comm
