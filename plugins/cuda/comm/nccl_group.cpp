// SPDX-License-Identifier: Apache-2.0
// nccl_group.cpp: the table of types, and each kind's call.
#include "nccl_group.hpp"

#include "nccl_door.hpp"

#include <tenon/author/comm_checks.hpp>
#include <tenon/author/half.hpp>

#include <cstring>
#include <optional>

namespace tenon::cuda::comm {

using author::text;

namespace {

std::optional<ncclDataType_t> nccl_type(uint32_t dtype) {
  switch (dtype) {
    case TN_DTYPE_bool:
    case TN_DTYPE_u8:
      return ncclUint8;
    case TN_DTYPE_i8:
      return ncclInt8;
    case TN_DTYPE_i32:
      return ncclInt32;
    case TN_DTYPE_u32:
      return ncclUint32;
    case TN_DTYPE_i64:
      return ncclInt64;
    case TN_DTYPE_u64:
      return ncclUint64;
    case TN_DTYPE_f16:
      return ncclFloat16;
    case TN_DTYPE_bf16:
      return ncclBfloat16;
    case TN_DTYPE_f32:
      return ncclFloat32;
    case TN_DTYPE_f64:
      return ncclFloat64;
    default:
      return std::nullopt;
  }
}

// Any of bools is their maximum, all of them their minimum.
std::optional<ncclRedOp_t> nccl_reduction(uint32_t reduce, uint32_t dtype) {
  const bool bools = dtype == TN_DTYPE_bool;
  switch (reduce) {
    case TN_REDUCE_SUM:
      return bools ? ncclMax : ncclSum;
    case TN_REDUCE_PROD:
      return bools ? ncclMin : ncclProd;
    case TN_REDUCE_MIN:
      return ncclMin;
    case TN_REDUCE_MAX:
      return ncclMax;
    case TN_REDUCE_AVG:
    case TN_REDUCE_PREMUL_SUM:
      return bools ? std::nullopt : std::optional(ncclAvg);
    default:
      return std::nullopt;
  }
}

// A factor in the bits of its type.
uint64_t factor_bits(double factor, uint32_t dtype) {
  if (dtype == TN_DTYPE_f64) return std::bit_cast<uint64_t>(factor);
  const auto narrow = static_cast<float>(factor);
  if (dtype == TN_DTYPE_f32) return std::bit_cast<uint32_t>(narrow);
  if (dtype == TN_DTYPE_f16) return author::to_f16(narrow).bits;
  if (dtype == TN_DTYPE_bf16) return author::to_bf16(narrow).bits;
  return static_cast<uint64_t>(
      static_cast<int64_t>(factor));  // two's complement: the low bytes are any integer's
}

void* at_address(uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

bool is_empty(const Part& part) noexcept {
  return part.kind != TN_COMM_BARRIER && part.kind != TN_COMM_ALL_TO_ALL_V && part.count == 0;
}

}  // namespace

void list_taken_by_nccl(tn_comm_limits& out) noexcept {
  tn_comm_limits all{};
  list_taken(all);
  out.kind_mask = all.kind_mask;
  out.reduce_mask = all.reduce_mask;
  out.dtype_mask = all.dtype_mask;
  for (uint32_t dtype = 0; dtype < 64; ++dtype)
    if (nccl_type(dtype)) out.reducible_mask |= uint64_t{1} << dtype;
}

Status NcclGroup::check(const Part& part) {
  if (!part.reduces() || (nccl_type(part.dtype) && nccl_reduction(part.reduce, part.dtype))) return {};
  return Status(TN_UNSUPPORTED, text("NCCL has no ", author::reduce_name(part.reduce), " of ",
                                     author::dtype_name(part.dtype)));
}

Status NcclGroup::begin(CUstream stream, uint32_t size) {
  const Nccl& nccl = handle_.library();
  return handle_.with([&](ncclComm_t comm) -> Status {
    TN_TRY(make_factors(comm));
    TN_TRY(nccl.check(nccl.ncclGroupStart(), "ncclGroupStart", comm));
    Status said = call_all(comm, stream, size);
    Status ended = nccl.check(nccl.ncclGroupEnd(), "ncclGroupEnd", comm);  // whatever came of the calls
    return said.ok() ? std::move(ended) : std::move(said);
  });
}

Status NcclGroup::make_factors(ncclComm_t comm) {
  const Nccl& nccl = handle_.library();
  for (const Part& part : parts_) {
    ncclRedOp_t reduction = part.reduces() ? *nccl_reduction(part.reduce, part.dtype) : ncclSum;
    if (part.reduce == TN_REDUCE_PREMUL_SUM) {
      uint64_t bits = factor_bits(part.factor, part.dtype);
      const bool there = part.factor_at != 0;
      TN_TRY(nccl.check(nccl.ncclRedOpCreatePreMulSum(
                            &reduction, there ? at_address(part.factor_at) : &bits, *nccl_type(part.dtype),
                            there ? ncclScalarDevice : ncclScalarHostImmediate, comm),
                        "ncclRedOpCreatePreMulSum", comm));
    }
    reductions_.push_back(reduction);
  }
  return {};
}

Status NcclGroup::end() {
  const Nccl& nccl = handle_.library();
  return handle_.with([&](ncclComm_t comm) -> Status {
    for (size_t i = 0; i < reductions_.size(); ++i) {
      if (parts_[i].reduce == TN_REDUCE_PREMUL_SUM)
        TN_TRY(nccl.check(nccl.ncclRedOpDestroy(reductions_[i], comm), "ncclRedOpDestroy", comm));
    }
    return {};
  });
}

Status NcclGroup::call_all(ncclComm_t comm, CUstream stream, uint32_t size) const {
  for (const bool messages : {false, true}) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].is_message() == messages && !is_empty(parts_[i]))
        TN_TRY(call(comm, parts_[i], reductions_[i], stream, size));
    }
  }
  return {};
}

Status NcclGroup::call(ncclComm_t comm, const Part& part, ncclRedOp_t reduction, CUstream stream,
                       uint32_t size) const {
  const Nccl& nccl = handle_.library();
  void *const from = at_address(part.from), *const to = at_address(part.to);
  const uint64_t bytes = part.count * part.width;
  const int peer = static_cast<int>(part.peer);
  switch (part.kind) {
    case TN_COMM_BROADCAST:
      return nccl.check(
          nccl.ncclBroadcast(part.from != 0 ? from : to, to, bytes, ncclUint8, peer, comm, stream),
          "ncclBroadcast", comm);
    case TN_COMM_ALL_GATHER:
      return nccl.check(nccl.ncclAllGather(from, to, bytes, ncclUint8, comm, stream), "ncclAllGather", comm);
    case TN_COMM_SEND:
      return nccl.check(nccl.ncclSend(from, bytes, ncclUint8, peer, comm, stream), "ncclSend", comm);
    case TN_COMM_RECV:
      return nccl.check(nccl.ncclRecv(to, bytes, ncclUint8, peer, comm, stream), "ncclRecv", comm);
    case TN_COMM_BARRIER:
      return nccl.check(
          nccl.ncclAllReduce(at_address(word_), at_address(word_), 1, ncclUint64, ncclMax, comm, stream),
          "ncclAllReduce", comm);
    case TN_COMM_ALL_TO_ALL:
    case TN_COMM_ALL_TO_ALL_V:
      return exchange(comm, part, stream, size);
    default:
      return reduce(comm, part, reduction, stream);
  }
}

Status NcclGroup::reduce(ncclComm_t comm, const Part& part, ncclRedOp_t reduction, CUstream stream) const {
  const Nccl& nccl = handle_.library();
  void *const from = at_address(part.from), *const to = at_address(part.to);
  const ncclDataType_t type = *nccl_type(part.dtype);
  if (part.kind == TN_COMM_ALL_REDUCE)
    return nccl.check(nccl.ncclAllReduce(from, to, part.count, type, reduction, comm, stream),
                      "ncclAllReduce", comm);
  if (part.kind == TN_COMM_REDUCE_SCATTER) {
    return nccl.check(nccl.ncclReduceScatter(from, to, part.count, type, reduction, comm, stream),
                      "ncclReduceScatter", comm);
  }
  return nccl.check(
      nccl.ncclReduce(from, to, part.count, type, reduction, static_cast<int>(part.peer), comm, stream),
      "ncclReduce", comm);
}

Status NcclGroup::exchange(ncclComm_t comm, const Part& part, CUstream stream, uint32_t size) const {
  const Nccl& nccl = handle_.library();
  const bool uneven = part.kind == TN_COMM_ALL_TO_ALL_V;
  uint64_t from = part.from, to = part.to;
  for (uint32_t rank = 0; rank < size; ++rank) {
    const uint64_t sent = (uneven ? part.send_counts[rank] : part.count) * part.width;
    const uint64_t received = (uneven ? part.recv_counts[rank] : part.count) * part.width;
    const int peer = static_cast<int>(rank);
    if (sent != 0)
      TN_TRY(
          nccl.check(nccl.ncclSend(at_address(from), sent, ncclUint8, peer, comm, stream), "ncclSend", comm));
    if (received != 0)
      TN_TRY(nccl.check(nccl.ncclRecv(at_address(to), received, ncclUint8, peer, comm, stream), "ncclRecv",
                        comm));
    from += sent;
    to += received;
  }
  return {};
}

}  // namespace tenon::cuda::comm
