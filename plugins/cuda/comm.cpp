// SPDX-License-Identifier: Apache-2.0
// comm.cpp: joining, and from then on handing every call to whoever carries the communicator.
#include "comm.hpp"

#include "comm/meeting.hpp"
#include "comm/threads.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cuda {

using author::text;
using comm::Member;

Result<std::unique_ptr<Comm>> Comm::create(const comm::Place& place, comm::Ticket ticket,
                                           const CommTools& tools, const tn_comm_options& options) {
  if (ticket.timeout_ns == 0) ticket.timeout_ns = comm::default_timeout_ns;
  const bool waits = (options.flags & TN_COMM_NON_BLOCKING) == 0;
  const bool deterministic = (options.flags & TN_COMM_DETERMINISTIC) != 0;
  const tn_store* const store = options.store;
  std::unique_ptr<Comm> made(new Comm(place, std::move(ticket), tools));
  const bool meets = store != nullptr && place.nccl != 0;
  if (meets && !waits) {
    made->joiner_ = std::thread(
        [comm = made.get(), store, deterministic] { comm->settle(comm->meet(*store, deterministic)); });
    return made;
  }
  const comm::Ticket& mine = made->ticket_;
  if (!meets && !place.is_here()) return comm::refuse_elsewhere(place, mine.rank, mine.name.c_str(), store);
  const auto elsewhere = [&] { return comm::told_elsewhere(place, store); };
  made->member_ =
      TN_TRY(meets ? made->meet(*store, deterministic) : comm::Threads::join(place, mine, waits, elsewhere));
  return made;
}

Comm::Made Comm::meet(const tn_store& store, bool deterministic) {
  const comm::Patience patience(ticket_.timeout_ns, &called_off_);
  comm::Meeting meeting(place_, ticket_, store, patience);
  const comm::Choice choice =
      TN_TRY(meeting.choose(comm::present(ticket_, deterministic, tools_.wishes, tools_.library)));
  if (choice.way == comm::Way::nccl) {
    comm::Ticket ticket = ticket_;
    ticket.enrolling = choice.enrolling;
    return comm::join_nccl(ticket, TN_TRY(meeting.agree_on_id(tools_.library)), patience, tools_.library);
  }
  const auto called_off = [&]() -> std::optional<std::string> {
    if (!called_off_) return std::nullopt;
    return text("communicator '", ticket_.name, "' was called off while it was being made");
  };
  return comm::Threads::join(place_, ticket_, true, called_off);
}

void Comm::settle(Made made) {
  const std::lock_guard lock(mutex_);
  if (!made.ok()) {
    if (!failure_) failure_ = made.error();
    return;
  }
  member_ = std::move(*made);
  if (failure_) (void)member_->abort();
}

Comm::~Comm() {
  called_off_ = true;
  if (joiner_.joinable()) joiner_.join();
}

Result<Member*> Comm::member() const {
  const std::lock_guard lock(mutex_);
  if (member_ != nullptr) return member_.get();
  if (failure_) return Status(*failure_);
  return Status(TN_BUSY, text("communicator '", ticket_.name, "' is being made: rank ", ticket_.rank,
                              " waits for the others"));
}

void Comm::limits(tn_comm_limits& out) const {
  const auto there = member();
  if (there.ok()) return (*there)->limits(out);
  comm::list_taken_by_nccl(out);
  out.max_ops = comm::Room::most_parts;
}

Status Comm::submit(Stream& stream, std::span<const tn_comm_op> ops) {
  return TN_TRY(member())
  ->submit(stream, ops);
}

Result<std::unique_ptr<Comm>> Comm::split(int32_t color, int32_t key, const tn_comm_options& options) {
  auto part = TN_TRY(TN_TRY(member())->split(color, key, options));
  if (part == nullptr) return std::unique_ptr<Comm>();
  std::unique_ptr<Comm> made(new Comm(place_, ticket_, tools_));
  made->member_ = std::move(part);
  return made;
}

Status Comm::abort() {
  const auto there = member();
  if (there.ok()) return (*there)->abort();
  const std::lock_guard lock(mutex_);
  if (member_ != nullptr) return member_->abort();
  if (!failure_) {
    failure_ = Error{.code = TN_ABORTED,
                     .message = text("rank ", ticket_.rank, " aborted communicator '", ticket_.name, "'")};
  }
  called_off_ = true;
  return {};
}

Status Comm::health() {
  return TN_TRY(member())
  ->health();
}

Status Comm::finish(uint64_t timeout_ns) {
  called_off_ = true;
  if (joiner_.joinable()) joiner_.join();
  const auto there = member();
  return there.ok() ? (*there)->finish(timeout_ns) : Status();
}

}  // namespace tenon::cuda
