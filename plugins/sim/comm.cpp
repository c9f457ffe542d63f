// SPDX-License-Identifier: Apache-2.0
// comm.cpp: see comm.hpp.
//
// A lane that skips a group holds the scheduler's mutex, and so only raises a flag: the fabric's thread tells the others.
#include "comm.hpp"

#include "comm/sums.hpp"

#include <tenon/author/comm_checks.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::sim {

using author::text;
using comm::Frame;
using comm::Topic;

namespace {

constexpr uint64_t never = UINT64_MAX;
constexpr uint64_t default_timeout_ns = 30'000'000'000;
// What an aborted group needs to end, and a hub to speak first.
constexpr uint64_t grace_ns = 1'000'000'000;

uint64_t after(uint64_t timeout_ns) {
  const uint64_t now = driver::now_ns();
  return timeout_ns > never - now ? never : now + timeout_ns;
}

}  // namespace

Comm::Comm(comm::Fabric& fabric, Scheduler& scheduler, Ticket ticket)
    : fabric_(fabric), scheduler_(scheduler), ticket_(std::move(ticket)) {}

Comm::~Comm() {
  auto lock = fabric_.lock();
  if (!attached_) return;
  look(driver::now_ns());  // a group that was passed over just now
  fabric_.detach(lock, *this, goodbye_ns_);
}

Result<std::unique_ptr<Comm>> Comm::create(comm::Fabric& fabric, Scheduler& scheduler, Ticket ticket,
                                           bool non_blocking) {
  if (ticket.timeout_ns == 0) ticket.timeout_ns = default_timeout_ns;
  std::unique_ptr<Comm> made(new Comm(fabric, scheduler, std::move(ticket)));
  TN_TRY(made->join(non_blocking));
  return made;
}

Status Comm::join(bool non_blocking) {
  auto lock = fabric_.lock();
  due_ns_ = after(ticket_.timeout_ns);
  TN_TRY(fabric_.attach(*this, ticket_.place,
                        {.token = ticket_.place.token,
                         .rank = ticket_.rank,
                         .size = ticket_.size,
                         .process = driver::process(),
                         .timeout_ns = ticket_.timeout_ns}));
  attached_ = true;
  if (non_blocking) return {};
  (void)fabric_.wait(lock, never, [this] { return stands_ || failure_; });
  return stands_ ? Status() : Status(*failure_);  // what has failed since is told by the next call
}

void Comm::limits(tn_comm_limits& out) const { comm::list_taken(out); }

Status Comm::health() {
  const auto lock = fabric_.lock();
  if (failure_) return Status(*failure_);
  if (stands_) return {};
  return Status(TN_BUSY, text("communicator '", ticket_.name, "' is being made: rank ", ticket_.rank,
                              " waits for ", missing_.empty() ? "the others" : missing_));
}

Status Comm::abort() {
  const auto lock = fabric_.lock();
  const std::string why = text("rank ", ticket_.rank, " aborted communicator '", ticket_.name, "'");
  if (!failure_) fabric_.say(*this, comm::frame_of(Topic::aborted, why));
  fail({.code = TN_ABORTED, .message = why});
  return {};
}

Result<Comm::Item> Comm::item_of(const Stream& stream, const tn_comm_op& op, uint32_t index) const {
  const author::CommSides bytes = TN_TRY(author::comm_sides(op, index, ticket_.rank, ticket_.size));
  Item out;
  out.send_bytes = bytes.send;
  out.recv_bytes = bytes.recv;
  if (bytes.send != 0) out.from = TN_TRY(stream.place(op.send, "send"));
  if (bytes.recv != 0) out.to = TN_TRY(stream.place(op.recv, "recv"));
  TN_TRY(author::check_in_place(op, index, bytes, ticket_.rank, out.from, out.to));
  out.part.kind = op.kind;
  if (op.kind == TN_COMM_BARRIER) return out;
  out.part.dtype = op.dtype;
  if (author::reduces(op.kind)) out.part.reduce = op.reduce;
  if (author::is_rooted(op.kind) || op.kind == TN_COMM_SEND || op.kind == TN_COMM_RECV)
    out.part.peer = static_cast<uint32_t>(op.peer);
  if (op.kind != TN_COMM_ALL_TO_ALL_V) {
    out.part.count = op.count;
    return out;
  }
  out.part.send_counts.assign(op.send_counts, op.send_counts + ticket_.size);
  out.part.recv_counts.assign(op.recv_counts, op.recv_counts + ticket_.size);
  return out;
}

Status Comm::submit(Stream& stream, std::span<const tn_comm_op> ops) {
  TN_TRY(health());
  if (ops.empty()) return {};
  auto group = std::make_shared<Group>();
  for (uint32_t i = 0; i < ops.size(); ++i) group->items.push_back(TN_TRY(item_of(stream, ops[i], i)));
  const auto skipped = [this](bool begun) {
    passed_over_.store(true);
    fabric_.ring();
    if (!begun) ended_->fetch_add(1);  // this object may end now
  };
  TN_TRY(stream.exchange({.kind = Command::Kind::exchange,
                          .run = [this, group] { return begin(group); },
                          .value = submitted_ + 1,
                          .ended = ended_,
                          .skipped = skipped},
                         group->lane));
  ++submitted_;
  return {};
}

// The lane has come to a group: takes along what it sends. [the scheduler's thread]
Status Comm::begin(const std::shared_ptr<Group>& group) {
  std::vector<comm::Part> parts;
  for (Item& item : group->items) {
    item.part.bytes.assign(item.from, item.from + item.send_bytes);
    parts.push_back(std::move(item.part));
  }
  const auto lock = fabric_.lock();
  if (failure_) return Status(*failure_);
  under_way_ = group;
  due_ns_ = after(ticket_.timeout_ns + std::min(grace_ns, never - ticket_.timeout_ns));
  fabric_.say(*this, comm::frame_of(parts));
  return {};
}

void Comm::hear(const Frame& frame) {
  switch (frame.topic) {
    case Topic::missing:
      missing_ = comm::words_in(frame);
      return;
    case Topic::welcome:
      stands_ = true;
      hub_ranks_ = comm::words_in(frame);
      due_ns_ = never;
      return;
    case Topic::results:
      return deliver(frame);
    case Topic::failed:
      return fail(comm::failure_in(frame));
    default:
      return;
  }
}

void Comm::deliver(const Frame& frame) {
  if (!under_way_) return;
  const auto results = comm::results_in(frame);
  const auto& items = under_way_->items;
  bool fits = results && results->size() == items.size();
  for (size_t i = 0; fits && i < items.size(); ++i)
    fits = items[i].to == nullptr || (*results)[i].size() == items[i].recv_bytes;
  if (!fits)
    return fail({.code = TN_INTERNAL, .message = "the hub answered with other bytes than were asked for"});
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].to != nullptr) std::memcpy(items[i].to, (*results)[i].data(), items[i].recv_bytes);
  }
  end_group({});
}

void Comm::cut_off() {
  fail({.code = TN_PEER_LOST,
        .message = text(hub_ranks_.empty() ? "the process that made the id" : hub_ranks_,
                        " is gone, and with it the hub of communicator '", ticket_.name, "'")});
}

void Comm::look(uint64_t now_ns) {
  if (passed_over_.load() && !failure_) {
    const std::string why =
        text("rank ", ticket_.rank,
             " passed over a group: the stream it was submitted on had failed or was abandoned");
    fabric_.say(*this, comm::frame_of(Topic::aborted, why));
    fail({.code = TN_ABORTED, .message = why});
  }
  if (due_ns_ > now_ns || failure_) return;
  if (stands_) {
    return fail({.code = TN_PEER_LOST,
                 .message = text(hub_ranks_.empty() ? "the process that made the id" : hub_ranks_,
                                 " does not answer, and carries communicator '", ticket_.name, "'")});
  }
  fail({.code = TN_TIMEOUT,
        .message = text(missing_.empty() ? "the other ranks" : missing_, " did not join communicator '",
                        ticket_.name, "' within ", ticket_.timeout_ns / 1'000'000, " ms")});
}

// Ends what is under way, and all that comes.
void Comm::fail(Error why) {
  due_ns_ = never;
  if (failure_) return;
  failure_ = std::move(why);
  if (under_way_) end_group(Status(*failure_));
  fabric_.changed();
}

void Comm::end_group(const Status& said) {
  due_ns_ = never;
  const auto group = std::exchange(under_way_, nullptr);
  ended_->fetch_add(1);
  scheduler_.complete(group->lane, said);
}

bool Comm::seen_out(uint64_t timeout_ns) {
  return scheduler_.press_on([this] { return ended_->load() >= submitted_; }, timeout_ns);
}

Status Comm::finish(uint64_t timeout_ns) {
  goodbye_ns_ = std::clamp(timeout_ns, grace_ns, std::max(grace_ns, ticket_.timeout_ns));
  if (seen_out(timeout_ns)) return {};
  const std::string why = text(submitted_ - ended_->load(), " groups were pending when rank ", ticket_.rank,
                               " destroyed communicator '", ticket_.name, "'");
  {
    const auto lock = fabric_.lock();
    if (!failure_) fabric_.say(*this, comm::frame_of(Topic::aborted, why));
    fail({.code = TN_ABORTED, .message = why});
  }
  if (seen_out(grace_ns))
    return Status(TN_ABORTED, text(why, ", and were aborted: synchronise their streams first"));
  return Status(TN_TIMEOUT, text(why, ", behind work of their streams that does not end"));
}

}  // namespace tenon::sim
