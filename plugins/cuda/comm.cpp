// SPDX-License-Identifier: Apache-2.0
// comm.cpp: what of an operation is checked before anybody hears of it; joining and leaving.
#include "comm.hpp"

#include "kernels/ranks.hpp"

#include <tenon/author/comm_checks.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace tenon::cuda {

using author::text;
using comm::Part;
using comm::Room;

namespace {

constexpr uint64_t default_timeout_ns = 30'000'000'000;
// What a group that was called off needs to end.
constexpr uint64_t grace_ns = 1'000'000'000;
constexpr std::chrono::microseconds look_again{50};

Status bad_operation(int32_t code, uint32_t index, const tn_comm_op& op, const std::string& why) {
  return Status(code, text("operation ", index, " (", author::kind_name(op.kind), "): ", why));
}

}  // namespace

Result<std::unique_ptr<Comm>> Comm::create(const comm::Place& place, comm::Ticket ticket,
                                           const Compiler& compiler, const tn_comm_options& options) {
  if (ticket.timeout_ns == 0) ticket.timeout_ns = default_timeout_ns;
  std::unique_ptr<Comm> made(new Comm(Room::at(place.token), std::move(ticket), compiler));
  TN_TRY(made->room_->enter(made->ticket_));
  made->seated_ = true;
  if ((options.flags & TN_COMM_NON_BLOCKING) != 0) return made;
  const auto elsewhere = [&] { return comm::told_elsewhere(place, options.store); };
  TN_TRY(made->room_->wait_for_all(made->ticket_.rank, elsewhere));
  return made;
}

Comm::~Comm() { leave(); }

void Comm::leave() {
  if (std::exchange(seated_, false)) room_->leave(ticket_.rank);
}

void Comm::limits(tn_comm_limits& out) const {
  comm::list_taken(out);
  out.max_ops = Room::most_parts;
}

Status Comm::abort() {
  room_->fail({.code = TN_ABORTED,
               .message = text("rank ", ticket_.rank, " aborted communicator '", ticket_.name, "'")});
  return {};
}

// Where a span lies, when every rank reaches it.
Result<uint64_t> Comm::reach(const tn_span& span, uint64_t multiple, uint32_t index, const char* what) {
  const CUdeviceptr at = place(span);
  if (at % multiple != 0) {
    return Status(TN_INVALID, text("operation ", index, ": ", what, " begins at address ", at,
                                   ", which is no multiple of its type's ", multiple, " bytes"));
  }
  const bool ours = span.space == TN_SPACE_MEMORY &&
                    (span.memory == nullptr || !author::object<Memory>(span.memory).is_borrowed());
  if (!ours && room_->spans_devices()) {
    return Status(
        TN_UNSUPPORTED,
        text("operation ", index, ": ", what,
             " is imported memory, or an address, which the other ranks' devices may not reach: copy it to "
             "memory of this plugin"));
  }
  return at;
}

Status Comm::add_factor(const tn_comm_op& op, uint32_t index, Part& part) {
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
  part.factor_at = TN_TRY(reach(op.factor, part.width, index, "factor"));
  return {};
}

Result<Part> Comm::part_of(const tn_comm_op& op, uint32_t index) {
  const uint32_t rank = ticket_.rank, size = ticket_.size;
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
  if (bytes.send != 0) out.from = TN_TRY(reach(op.send, multiple, index, "send"));
  if (bytes.recv != 0) out.to = TN_TRY(reach(op.recv, multiple, index, "recv"));
  const auto pointer = [](uint64_t at) {
    return reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(at));
  };
  TN_TRY(author::check_in_place(op, index, bytes, rank, pointer(out.from), pointer(out.to)));
  if (out.reduce == TN_REDUCE_PREMUL_SUM) TN_TRY(add_factor(op, index, out));
  if (op.kind == TN_COMM_ALL_TO_ALL_V) {
    out.send_counts.assign(op.send_counts, op.send_counts + size);
    out.recv_counts.assign(op.recv_counts, op.recv_counts + size);
  } else {
    out.count = op.count;
  }
  return out;
}

Result<CUfunction> Comm::function_for(const Part& part) {
  if (!comm::has_work(part)) return CUfunction{};
  if (!part.reduces()) return ticket_.gpu->pull();
  CUfunction& found = reductions_[{part.dtype, part.reduce}];
  if (found == nullptr && reduces_ranks(part.dtype, part.reduce))
    found = TN_TRY(comm::find_reduction(*ticket_.gpu, compiler_, part.dtype, part.reduce));
  if (found != nullptr) return found;
  return Status(TN_UNSUPPORTED, text(author::reduce_name(part.reduce), " of ", author::dtype_name(part.dtype),
                                     " means nothing: use sum or max for any, prod or min for all"));
}

// At most so many groups are on their way as the board holds.
Status Comm::wait_for_room(const std::vector<Part>& parts) {
  while (!TN_TRY(room_->has_room(ticket_.rank, parts))) {
    if (!seen_out(0)) std::this_thread::sleep_for(look_again);
  }
  return {};
}

// What is sent from where something is received is sent from a copy, so that no rank reads what another has written.
Status Comm::set_aside(comm::Errand& errand) {
  const auto overlaps = [](const Part& part) {
    const bool swaps = part.kind == TN_COMM_ALL_TO_ALL || part.kind == TN_COMM_ALL_TO_ALL_V;
    return swaps && part.send_bytes != 0 && part.from < part.to + part.recv_bytes &&
           part.to < part.from + part.send_bytes;
  };
  uint64_t bytes = 0;
  for (const Part& part : errand.parts) bytes += overlaps(part) ? part.send_bytes : 0;
  if (bytes == 0) return {};
  CUdeviceptr at = TN_TRY(aside_.take(bytes));
  for (Part& part : errand.parts) {
    if (!overlaps(part)) continue;
    errand.moves.push_back({.to = at, .from = part.from, .bytes = part.send_bytes});
    part.from = at;
    at += part.send_bytes;
  }
  return {};
}

Status Comm::submit(Stream& stream, std::span<const tn_comm_op> ops) {
  TN_TRY(health());
  if (ops.empty()) return {};
  const Context& context = *ticket_.gpu->context();
  if (stream.gpu() != ticket_.gpu) {
    return Status(TN_INVALID, text("the stream is of device 'cuda:", stream.gpu()->context()->ordinal(),
                                   "', and rank ", ticket_.rank, " of communicator '", ticket_.name,
                                   "' is on device 'cuda:", context.ordinal(), "'"));
  }
  const Bound bound(context.driver(), context.handle());
  comm::Errand errand;
  for (uint32_t i = 0; i < ops.size(); ++i) errand.parts.push_back(TN_TRY(part_of(ops[i], i)));
  for (const Part& part : errand.parts) errand.functions.push_back(TN_TRY(function_for(part)));
  TN_TRY(wait_for_room(errand.parts));
  const CUstream native = TN_TRY(stream.lend());
  TN_TRY(set_aside(errand));
  auto fate = std::make_shared<Fate>();
  errand.turns = TN_TRY(room_->bring(ticket_.rank, errand.parts, fate));
  stream.share(std::move(fate));
  const comm::Strand trunk(*ticket_.gpu, native);
  auto end = comm::enqueue(errand, trunk, side_, end_);
  if (end.ok()) {
    end_ = std::move(*end);
    return {};
  }
  room_->fail({.code = end.code(),
               .message = text("rank ", ticket_.rank, " could not enqueue a group of communicator '",
                               ticket_.name, "': ", end.message())});
  if (auto mark = trunk.mark(); mark.ok()) end_ = std::move(*mark);  // part of it may be on its way
  return Status(end.error());
}

Result<std::unique_ptr<Comm>> Comm::split(int32_t color, int32_t key, const tn_comm_options& options) {
  const uint64_t timeout_ns = options.timeout_ns != 0 ? options.timeout_ns : ticket_.timeout_ns;
  const Room::Branch branch = TN_TRY(room_->split(ticket_.rank, color, key, timeout_ns));
  if (branch.size == 0) return std::unique_ptr<Comm>();
  comm::Place place = comm::Place::fresh();
  place.token = branch.token;
  return create(place,
                {.rank = branch.rank,
                 .size = branch.size,
                 .timeout_ns = timeout_ns,
                 .name = options.name != nullptr ? options.name : text(ticket_.name, ".", color),
                 .gpu = ticket_.gpu},
                compiler_, options);
}

// Whether the newest group has ended, which asks for it: a driver may do what nobody asks for late. A lost device has ended all.
bool Comm::seen_out(uint64_t timeout_ns) const {
  if (!end_) return true;
  const Context& context = *ticket_.gpu->context();
  const Bound bound(context.driver(), context.handle());
  const Relaxed relaxed(context.driver());
  const auto begin = std::chrono::steady_clock::now();
  while (context.driver().cuEventQuery(end_.native()) == CUDA_ERROR_NOT_READY) {
    const auto spent = std::chrono::steady_clock::now() - begin;
    if (static_cast<uint64_t>(std::chrono::nanoseconds(spent).count()) >= timeout_ns) return false;
    std::this_thread::sleep_for(look_again);
  }
  return true;
}

Status Comm::finish(uint64_t timeout_ns) {
  if (seen_out(timeout_ns)) {
    leave();
    return {};
  }
  const std::string why =
      text("rank ", ticket_.rank, " destroyed communicator '", ticket_.name, "' with groups on their way");
  room_->fail({.code = TN_ABORTED, .message = why});
  const bool out = seen_out(grace_ns);
  leave();
  if (out) return Status(TN_ABORTED, text(why, ", which were called off: synchronise their streams first"));
  return Status(TN_TIMEOUT, text(why, ", behind work of their streams that does not end"));
}

}  // namespace tenon::cuda
