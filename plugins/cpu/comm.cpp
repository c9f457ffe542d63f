// SPDX-License-Identifier: Apache-2.0
// comm.cpp: see comm.hpp.
//
// Invariant: a group that fails fails the communicator first, so the others learn it from the segment and not by waiting.
#include "comm.hpp"

#include "device.hpp"

#include <tenon/author/span.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu {

using author::text;
using comm::Window;

namespace {

constexpr uint64_t default_timeout_ns = 30'000'000'000;
// Of more groups than a submit needs to have ended.
constexpr uint64_t moment_ns = 500'000;
// A rank brings at most so much to a group that is done in its submit: some tens of microseconds at the speed of memory.
constexpr uint64_t at_once_bytes = 1 << 20;
// Small groups that are not tried, at most, after many in a row to which the others had not come: they are seldom in step.
constexpr uint32_t most_left_out = 15;
// What an aborted group needs to end.
constexpr uint64_t ending_ns = 3'000'000'000;

constexpr uint64_t bit(uint32_t number) { return uint64_t{1} << number; }

// What every communicator takes. max_ops stays 0: collectives are limited, messages are not.
tn_comm_limits taken_by_all() {
  tn_comm_limits out{};
  for (uint32_t kind = TN_COMM_ALL_REDUCE; kind <= TN_COMM_BARRIER; ++kind) out.kind_mask |= bit(kind);
  for (uint32_t reduce = TN_REDUCE_SUM; reduce <= TN_REDUCE_PREMUL_SUM; ++reduce)
    out.reduce_mask |= bit(reduce);
  for (uint32_t dtype = 1; dtype < 64; ++dtype) {
    if (comm::width_of(dtype) != 0) out.dtype_mask |= bit(dtype);
    if (comm::reduce_row(dtype, TN_REDUCE_SUM) != nullptr) out.reducible_mask |= bit(dtype);
  }
  return out;
}

void find_window(const tn_span& span, Window& out) {
  if (span.space == TN_SPACE_MEMORY) return author::object<Memory>(span.memory).find_window(span.offset, out);
  out.kind = Window::personal;
  out.address = span.offset;
}

}  // namespace

Comm::Comm(comm::Segments& segments, comm::Ticket ticket, std::function<void(const comm::Member&)> stands)
    : segments_(segments), ticket_(std::move(ticket)), stands_(std::move(stands)), turns_(new Timeline) {
  ticket_.cancelled = &cancelled_;
  if (ticket_.timeout_ns == 0) ticket_.timeout_ns = default_timeout_ns;
  for (Pending& pending : pending_) pending.owner = this;
}

Comm::~Comm() {
  cancelled_.store(true);
  if (joiner_.joinable()) joiner_.join();
  turns_->release();
}

Result<std::unique_ptr<Comm>> Comm::create(comm::Segments& segments, comm::Ticket ticket, bool non_blocking,
                                           std::function<void(const comm::Member&)> stands) {
  std::unique_ptr<Comm> made(new Comm(segments, std::move(ticket), std::move(stands)));
  if (!non_blocking) {
    TN_TRY(made->join());
    return made;
  }
  made->joining_.store(1);
  made->joiner_ = std::thread([comm = made.get()] { comm->join_by_itself(); });
  return made;
}

void Comm::join_by_itself() noexcept {
  Status joined = join();
  if (!joined.ok()) {
    refusal_ = joined.error();
    refused_.store(true, std::memory_order_release);
  }
  joining_.store(0);
  driver::wake_all(joining_);
}

Status Comm::join() {
  try {
    standing_ = std::make_unique<Standing>(TN_TRY(segments_.join(ticket_)));
    // A submit of one collective then allocates nothing, however many are under way.
    for (Pending& pending : pending_) pending.group.operations.reserve(1);
  } catch (const std::bad_alloc&) {
    return Status(TN_NO_MEMORY, text("no host memory for communicator '", ticket_.name, "'"));
  }
  stands_(*standing_->member);
  ready_.store(true);
  // An abort either found it ready, or is found here.
  if (cancelled_.load()) fail_as_aborted();
  return {};
}

// Asked at every submit.
void Comm::limits(tn_comm_limits& out) const {
  static const tn_comm_limits all = taken_by_all();
  const uint32_t size = out.size;
  out = all;
  out.size = size;
}

Status Comm::health() {
  if (refused_.load(std::memory_order_acquire)) return Status(Error(refusal_));
  if (!ready_.load(std::memory_order_acquire)) {
    return Status(TN_BUSY, text("communicator '", ticket_.name, "' is being made: rank ", ticket_.rank,
                                " waits for the others"));
  }
  return standing_->member->failed() ? standing_->member->failure() : Status();
}

Status Comm::abort() {
  cancelled_.store(true);
  if (ready_.load()) fail_as_aborted();
  return {};
}

void Comm::fail_as_aborted() noexcept {
  try {
    (void)standing_->member->fail(TN_ABORTED, text("rank ", ticket_.rank, " aborted"));
  } catch (const std::bad_alloc&) {
    (void)standing_->member->fail(TN_ABORTED, {});
  }
}

// Who must wait waits for half of them, for a moment: woken for each, two threads on one processor would take turns at each. Where
// all are small it waits for all, and the next are done in their submits again.
void Comm::wait_for_room(uint64_t number) {
  const bool all_small = handed_over_ >= depth;
  if (turns_->sleep_until(all_small ? number - 1 : number - depth / 2, driver::deadline_after(moment_ns))) {
    if (all_small) left_out_ = 0;
    return;
  }
  (void)turns_->sleep_until(number - depth, driver::never);
}

Status Comm::submit(Stream& stream, std::span<const tn_comm_op> ops) {
  TN_TRY(health());
  if (ops.empty()) return {};
  const uint64_t number = submitted_ + 1;
  if (number > depth && turns_->progress() < number - depth) wait_for_room(number);
  Pending& pending = pending_[number % depth];
  pending.begun = false;
  if (ops.size() == 1 && left_out_ == 0 && may_end_at_once(stream, number) &&
      done_briefly(ops.front(), number, pending.begun)) {
    handed_over_ = 0;
    submitted_ = number;
    ++collectives_;
    return {};
  }
  const comm::Maker maker{.rank = ticket_.rank,
                          .size = ticket_.size,
                          .find_window = find_window,
                          .address_of = author::data_of<Memory>};
  TN_TRY(comm::make_group(maker, ops, pending.group));
  pending.number = number;
  pending.group.sequence = pending.group.operations.empty() ? number : collectives_ + 1;
  const bool small = is_small(pending.group);
  if (!pending.begun && small && done_at_once(stream, pending)) {
    handed_over_ = 0;
  } else {
    TN_TRY(stream.run(pending, *turns_, number - 1));
    handed_over_ = small ? handed_over_ + 1 : 0;
  }
  submitted_ = number;
  if (!pending.group.operations.empty()) ++collectives_;
  return {};
}

bool Comm::is_small(const comm::Group& group) const noexcept {
  return !group.operations.empty() && group.copies.empty() && group.letters.empty() &&
         standing_->collector.is_small(group.operations, at_once_bytes);
}

bool Comm::done_briefly(const tn_comm_op& op, uint64_t number, bool& begun) {
  comm::Collector& collector = standing_->collector;
  comm::Member& member = *standing_->member;
  if (!collector.takes_briefs()) return false;
  const auto brief = comm::Brief::of(op, author::data_of<Memory>);
  if (!brief || !member.enter(Memory::shared_given_back(), false).ok()) return false;
  collector.begin(*brief, collectives_ + 1);
  if (member.all_are_here() && collector.end(*brief)) {
    ended_at_once(number);
    return true;
  }
  begun = true;
  others_were_late();
  return false;
}

// Who submits is not in finish(): nobody ends this object meanwhile.
void Comm::ended_at_once(uint64_t number) noexcept {
  standing_->member->leave();
  turns_->advance(number);
  late_ = 0;
}

void Comm::others_were_late() noexcept {
  left_out_ = late_;
  late_ = std::min(2 * late_ + 1, most_left_out);
}

// Handing a small group to the worker costs more than the group itself. Where another rank is late, the worker waits for it; what
// fails here fails once more there, where it is told.
bool Comm::done_at_once(const Stream& stream, Pending& pending) {
  if (!may_end_at_once(stream, pending.number)) return false;
  if (left_out_ > 0) {
    --left_out_;
    return false;
  }
  const comm::Group& group = pending.group;
  comm::Collector& collector = standing_->collector;
  comm::Member& member = *standing_->member;
  if (!member.enter(Memory::shared_given_back(), collector.reaches_others(group.operations)).ok())
    return false;
  collector.begin(group.operations, group.sequence);
  pending.begun = true;
  try {
    while (collector.may_advance() && member.all_are_here()) {
      const Result<bool> ended = collector.advance(group.operations);
      if (!ended.ok()) return false;
      if (!*ended) continue;
      ended_at_once(pending.number);
      return true;
    }
  } catch (const std::bad_alloc&) {
    (void)no_memory();
    return false;
  }
  if (collector.may_advance()) others_were_late();
  return false;
}

Status Comm::no_memory() {
  return standing_->member->fail(TN_NO_MEMORY,
                                 text("rank ", ticket_.rank, " has no host memory for a group"));
}

Status Comm::perform(Pending& pending) {
  comm::Member& member = *standing_->member;
  Status done;
  try {
    const comm::Group& group = pending.group;
    const bool reaches = !group.letters.empty() || standing_->collector.reaches_others(group.operations);
    done = member.enter(Memory::shared_given_back(), reaches);
    if (done.ok()) done = carry_out(pending);
  } catch (const std::bad_alloc&) {
    done = no_memory();
  }
  member.meanwhile(nullptr);
  member.leave();
  count(pending.number);
  return done;
}

Status Comm::carry_out(const Pending& pending) {
  comm::Member& member = *standing_->member;
  if (pending.begun) return standing_->collector.finish(pending.group.operations);
  const comm::Group& group = pending.group;
  for (const comm::Copy& copy : group.copies) std::copy_n(copy.from, copy.bytes, copy.to.get());
  if (!group.letters.empty()) standing_->atlas.forget_freed();  // collectives do it when all are there
  comm::Mail mail(member, standing_->atlas, group.letters);
  comm::FarMail far_mail(member, standing_->bridge.get(), group.letters);
  TN_TRY(far_mail.post());
  if (!group.letters.empty() && !mail.met()) member.meanwhile(&mail);
  if (!group.operations.empty()) TN_TRY(standing_->collector.run(group.operations, group.sequence));
  member.meanwhile(nullptr);
  if (group.letters.empty()) return {};
  const comm::Letter& first = group.letters.front();
  member.doing(group.sequence, first.sends ? TN_COMM_SEND : TN_COMM_RECV);
  TN_TRY(member.wait(mail));
  return far_mail.finish();
}

// The stream failed or was abandoned before the group's turn: nobody else can know, so all are told.
void Comm::pass_over(Pending& pending) noexcept {
  try {
    (void)standing_->member->fail(TN_ABORTED,
                                  text("rank ", ticket_.rank, " passed over group ", pending.group.sequence,
                                       ": the stream it was submitted on had failed or was abandoned"));
  } catch (const std::bad_alloc&) {
    (void)standing_->member->fail(TN_ABORTED, {});
  }
  (void)turns_->sleep_until(pending.number - 1, driver::never);
  if (pending.begun) standing_->member->leave();
  count(pending.number);
}

// After this `finish` may return and this object end; the timeline is held until the others are woken.
void Comm::count(uint64_t number) noexcept {
  Timeline& turns = *turns_;
  turns.retain();
  turns.advance(number);
  turns.release();
}

// One that waits for a store, which it asks again at least every second, or for other ranks.
bool Comm::end_joining(uint64_t timeout_ns) noexcept {
  if (ready_.load() || refused_.load()) return true;
  cancelled_.store(true);
  const uint64_t deadline = driver::deadline_after(std::max(timeout_ns, ending_ns));
  while (joining_.load() != 0) {
    if (driver::now_ns() >= deadline) return false;
    driver::sleep_on(joining_, 1, deadline);
  }
  return true;
}

Status Comm::finish(uint64_t timeout_ns) {
  if (!end_joining(timeout_ns)) {
    joiner_.detach();  // this object is left to it
    return Status(TN_TIMEOUT,
                  text("rank ", ticket_.rank, " destroyed communicator '", ticket_.name,
                       "' while it was being made, and its creation does not end: look what holds "
                       "its store up"));
  }
  if (!ready_.load(std::memory_order_acquire)) return {};
  if (turns_->sleep_until(submitted_, driver::deadline_after(timeout_ns))) return {};
  const std::string pending = text(submitted_ - turns_->progress(), " groups were pending when rank ",
                                   ticket_.rank, " destroyed communicator '", ticket_.name, "'");
  (void)standing_->member->fail(TN_ABORTED, pending);
  if (turns_->sleep_until(submitted_, driver::deadline_after(ending_ns))) {
    return Status(TN_ABORTED, text(pending, ", and were aborted: synchronise their streams first"));
  }
  return Status(TN_TIMEOUT, text(pending, ", behind work of their streams that does not end"));
}

}  // namespace tenon::cpu
