// SPDX-License-Identifier: Apache-2.0
// threads.cpp: joining, submitting and leaving where the ranks share a process.
#include "threads.hpp"

#include <tenon/author/comm_checks.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tenon::cuda::comm {

using author::text;

namespace {

// What a group that was called off needs to end.
constexpr uint64_t grace_ns = 1'000'000'000;
constexpr std::chrono::microseconds look_again{50};

}  // namespace

Result<std::unique_ptr<Member>> Threads::join(const Place& place, Ticket ticket, bool waits,
                                              const Elsewhere& elsewhere) {
  TN_TRY(ticket.gpu->load_reductions());
  std::unique_ptr<Threads> made(new Threads(Room::at(place.token), std::move(ticket)));
  TN_TRY(made->room_->enter(made->ticket_));
  made->seated_ = true;
  made->ticket_.gpu->rank_joins();
  if (waits) TN_TRY(made->room_->wait_for_all(made->ticket_.rank, elsewhere));
  return std::unique_ptr<Member>(std::move(made));
}

Threads::~Threads() { leave(); }

void Threads::leave() {
  if (!std::exchange(seated_, false)) return;
  if (!seen_out(*ticket_.gpu, end_, 0)) room_->forsake_words();
  room_->leave(ticket_.rank);
  ticket_.gpu->rank_leaves();
}

void Threads::limits(tn_comm_limits& out) const {
  list_taken(out);
  out.max_ops = Room::most_parts;
}

Status Threads::abort() {
  room_->fail({.code = TN_ABORTED,
               .message = text("rank ", ticket_.rank, " aborted communicator '", ticket_.name, "'")});
  return {};
}

// Where a span lies, when every rank reaches it.
Result<uint64_t> Threads::reach(const tn_span& span, uint32_t index, const char* what) {
  const bool ours = span.space == TN_SPACE_MEMORY &&
                    (span.memory == nullptr || !author::object<Memory>(span.memory).is_borrowed());
  if (ours || !room_->spans_devices()) return cuda::place(span);
  return Status(
      TN_UNSUPPORTED,
      text("operation ", index, ": ", what,
           " is imported memory, or an address, which the other ranks' devices may not reach: copy it to "
           "memory of this plugin"));
}

Result<CUfunction> Threads::function_for(const Part& part) const {
  if (!has_work(part)) return CUfunction{};
  if (!part.reduces()) return ticket_.gpu->pull();
  const CUfunction found = ticket_.gpu->reduction(part.dtype, part.reduce);
  if (found != nullptr) return found;
  return Status(TN_UNSUPPORTED, text(author::reduce_name(part.reduce), " of ", author::dtype_name(part.dtype),
                                     " means nothing: use sum or max for any, prod or min for all"));
}

// At most so many groups are on their way as the board holds.
Status Threads::wait_for_room(const std::vector<Part>& parts) {
  while (!TN_TRY(room_->has_room(ticket_.rank, parts))) {
    if (!seen_out(*ticket_.gpu, end_, 0)) std::this_thread::sleep_for(look_again);
  }
  return {};
}

// What is sent from where something is received is sent from a copy, so that no rank reads what another has written.
Status Threads::set_aside(Errand& errand) {
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

Status Threads::submit(Stream& stream, std::span<const tn_comm_op> ops) {
  TN_TRY(health());
  if (ops.empty()) return {};
  TN_TRY(check_stream(stream, ticket_));
  const Context& context = *ticket_.gpu->context();
  const Bound bound(context.driver(), context.handle());
  Errand errand;
  const auto where = [this](const tn_span& span, uint32_t i, const char* what) {
    return reach(span, i, what);
  };
  for (uint32_t i = 0; i < ops.size(); ++i)
    errand.parts.push_back(TN_TRY(part_of(ops[i], i, ticket_.rank, ticket_.size, where)));
  for (const Part& part : errand.parts) errand.functions.push_back(TN_TRY(function_for(part)));
  TN_TRY(wait_for_room(errand.parts));
  const CUstream native = TN_TRY(stream.lend());
  TN_TRY(set_aside(errand));
  auto fate = std::make_shared<Fate>();
  errand.turns = TN_TRY(room_->bring(ticket_.rank, errand.parts, fate));
  stream.share(std::move(fate));
  const Strand trunk(*ticket_.gpu, native);
  auto end = enqueue(errand, trunk, side_, end_);
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

Result<std::unique_ptr<Member>> Threads::split(int32_t color, int32_t key, const tn_comm_options& options) {
  const uint64_t timeout_ns = options.timeout_ns != 0 ? options.timeout_ns : ticket_.timeout_ns;
  const Room::Branch branch = TN_TRY(room_->split(ticket_.rank, color, key, timeout_ns));
  if (branch.size == 0) return std::unique_ptr<Member>();
  Place place = Place::fresh();
  place.token = branch.token;
  return join(place,
              {.rank = branch.rank,
               .size = branch.size,
               .timeout_ns = timeout_ns,
               .name = options.name != nullptr ? options.name : text(ticket_.name, ".", color),
               .gpu = ticket_.gpu},
              (options.flags & TN_COMM_NON_BLOCKING) == 0, [] { return std::nullopt; });
}

Status Threads::finish(uint64_t timeout_ns) {
  if (seen_out(*ticket_.gpu, end_, timeout_ns)) {
    leave();
    return {};
  }
  const std::string why =
      text("rank ", ticket_.rank, " destroyed communicator '", ticket_.name, "' with groups on their way");
  room_->fail({.code = TN_ABORTED, .message = why});
  const bool out = seen_out(*ticket_.gpu, end_, grace_ns);
  leave();
  if (out) return Status(TN_ABORTED, text(why, ", which were called off: synchronise their streams first"));
  return Status(TN_TIMEOUT, text(why, ", behind work of their streams that does not end"));
}

}  // namespace tenon::cuda::comm
