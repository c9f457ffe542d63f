// SPDX-License-Identifier: Apache-2.0
// ops.cpp: CommOp's makers: from spans to counts.
#include <tenon/comm.hpp>

namespace tenon {
namespace {

uint64_t elements(uint64_t span_bytes, DType dtype) noexcept {
  const uint64_t width = bits(dtype) / 8;
  return width == 0 ? 0 : span_bytes / width;
}

// What only some kinds have.
struct More {
  Reduction how{};
  double factor = 1;
  uint32_t peer = 0;
};

// Written once, where the caller has it: copies of it would take as long as the submit of a small group.
CommOp op(uint32_t kind, const tn_span& send, const tn_span& recv, DType dtype, uint64_t bytes,
          const More& more = {}) noexcept {
  CommOp out;
  out.abi.kind = kind;
  out.abi.dtype = static_cast<uint32_t>(dtype);
  out.abi.count = elements(bytes, dtype);
  out.abi.send = send;
  out.abi.recv = recv;
  out.abi.reduce = static_cast<uint32_t>(more.how);
  out.abi.scalar = more.factor;
  out.abi.peer = static_cast<int32_t>(more.peer);
  return out;
}

}  // namespace

CommOp CommOp::all_reduce(const tn_span& send, const tn_span& recv, DType dtype, Reduction how,
                          double factor) noexcept {
  return op(TN_COMM_ALL_REDUCE, send, recv, dtype, send.bytes, {.how = how, .factor = factor});
}

CommOp CommOp::reduce(const tn_span& send, const tn_span& recv, DType dtype, uint32_t root, Reduction how,
                      double factor) noexcept {
  return op(TN_COMM_REDUCE, send, recv, dtype, send.bytes, {.how = how, .factor = factor, .peer = root});
}

CommOp CommOp::broadcast(const tn_span& send, const tn_span& recv, DType dtype, uint32_t root) noexcept {
  return op(TN_COMM_BROADCAST, send, recv, dtype, recv.bytes, {.peer = root});
}

CommOp CommOp::all_gather(const tn_span& send, const tn_span& recv, DType dtype) noexcept {
  return op(TN_COMM_ALL_GATHER, send, recv, dtype, send.bytes);
}

CommOp CommOp::reduce_scatter(const tn_span& send, const tn_span& recv, DType dtype, Reduction how,
                              double factor) noexcept {
  return op(TN_COMM_REDUCE_SCATTER, send, recv, dtype, recv.bytes, {.how = how, .factor = factor});
}

CommOp CommOp::all_to_all(const tn_span& send, const tn_span& recv, DType dtype, uint32_t size) noexcept {
  return op(TN_COMM_ALL_TO_ALL, send, recv, dtype, size == 0 ? 0 : send.bytes / size);
}

CommOp CommOp::all_to_all(const tn_span& send, std::span<const uint64_t> send_counts, const tn_span& recv,
                          std::span<const uint64_t> recv_counts, DType dtype) noexcept {
  CommOp out = op(TN_COMM_ALL_TO_ALL_V, send, recv, dtype, 0);
  out.abi.send_counts = send_counts.data();
  out.abi.recv_counts = recv_counts.data();
  return out;
}

CommOp CommOp::send(const tn_span& what, DType dtype, uint32_t to) noexcept {
  return op(TN_COMM_SEND, what, {}, dtype, what.bytes, {.peer = to});
}

CommOp CommOp::recv(const tn_span& what, DType dtype, uint32_t from) noexcept {
  return op(TN_COMM_RECV, {}, what, dtype, what.bytes, {.peer = from});
}

CommOp CommOp::barrier() noexcept { return op(TN_COMM_BARRIER, {}, {}, u8, 0); }

}  // namespace tenon
