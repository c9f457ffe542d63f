// SPDX-License-Identifier: Apache-2.0
// intake.cpp: operations held against comm.h, and made parts.
#include "intake.hpp"

#include <tenon/author/comm_checks.hpp>

#include <cmath>

namespace tenon::cuda::comm {

using author::text;

namespace {

Status bad_operation(int32_t code, uint32_t index, const tn_comm_op& op, const std::string& why) {
  return Status(code, text("operation ", index, " (", author::kind_name(op.kind), "): ", why));
}

Result<uint64_t> find(const tn_span& span, uint64_t multiple, uint32_t index, const char* what,
                      const Reach& reach) {
  const uint64_t at = place(span);
  if (at % multiple == 0) return reach(span, index, what);
  return Status(TN_INVALID, text("operation ", index, ": ", what, " begins at address ", at,
                                 ", which is no multiple of its type's ", multiple, " bytes"));
}

Status add_factor(const tn_comm_op& op, uint32_t index, Part& part, const Reach& reach) {
  part.factor = op.scalar;
  const bool whole = !author::is_float(op.dtype);
  if (op.factor.bytes == 0 && whole &&
      !(op.scalar == std::trunc(op.scalar) && std::fabs(op.scalar) <= 0x1p53)) {
    return bad_operation(TN_INVALID, index, op,
                         text("a factor of ", author::dtype_name(op.dtype),
                              " must be a whole number of at most 2^53; ", op.scalar, " is none"));
  }
  if (op.factor.bytes == 0) return {};
  if (op.factor.bytes < part.width) {
    return bad_operation(TN_INVALID, index, op,
                         text("the factor has ", op.factor.bytes, " bytes, and one ",
                              author::dtype_name(op.dtype), " is more"));
  }
  part.factor_at = TN_TRY(find(op.factor, part.width, index, "factor", reach));
  return {};
}

}  // namespace

Result<Part> part_of(const tn_comm_op& op, uint32_t index, uint32_t rank, uint32_t size, const Reach& reach) {
  const author::CommSides bytes = TN_TRY(author::comm_sides(op, index, rank, size));
  Part out{.kind = op.kind, .send_bytes = bytes.send, .recv_bytes = bytes.recv};
  if (op.kind == TN_COMM_BARRIER) return out;
  out.dtype = op.dtype;
  out.width = author::dtype_bits(op.dtype) / 8;
  if (author::reduces(op.kind)) out.reduce = op.reduce;
  if (author::is_rooted(op.kind) || out.is_message()) {
    out.peer = static_cast<uint32_t>(op.peer);
    if (op.peer < 0 || out.peer >= size)
      return bad_operation(TN_INVALID, index, op, text("rank ", op.peer, " of ", size));
  }
  const uint64_t multiple = out.reduces() ? out.width : 1;
  if (bytes.send != 0) out.from = TN_TRY(find(op.send, multiple, index, "send", reach));
  if (bytes.recv != 0) out.to = TN_TRY(find(op.recv, multiple, index, "recv", reach));
  const auto pointer = [](uint64_t at) {
    return reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(at));
  };
  TN_TRY(author::check_in_place(op, index, bytes, rank, pointer(out.from), pointer(out.to)));
  if (out.reduce == TN_REDUCE_PREMUL_SUM) TN_TRY(add_factor(op, index, out, reach));
  if (op.kind == TN_COMM_ALL_TO_ALL_V) {
    out.send_counts.assign(op.send_counts, op.send_counts + size);
    out.recv_counts.assign(op.recv_counts, op.recv_counts + size);
  } else {
    out.count = op.count;
  }
  return out;
}

Status check_stream(const Stream& stream, const Ticket& ticket) {
  if (stream.gpu() == ticket.gpu) return {};
  return Status(TN_INVALID, text("the stream is of device 'cuda:", stream.gpu()->context()->ordinal(),
                                 "', and rank ", ticket.rank, " of communicator '", ticket.name,
                                 "' is on device 'cuda:", ticket.gpu->context()->ordinal(), "'"));
}

bool overlaps(const Part& part) noexcept {
  const bool swaps = part.kind == TN_COMM_ALL_TO_ALL || part.kind == TN_COMM_ALL_TO_ALL_V;
  return swaps && part.send_bytes != 0 && part.from < part.to + part.recv_bytes &&
         part.to < part.from + part.send_bytes;
}

}  // namespace tenon::cuda::comm
