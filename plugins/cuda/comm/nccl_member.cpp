// SPDX-License-Identifier: Apache-2.0
// nccl_member.cpp: from a group to what its stream does, and the way out.
#include "nccl_member.hpp"

#include "intake.hpp"
#include "nccl_group.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cuda::comm {

using author::text;

namespace {

constexpr uint32_t most_nccl_parts = 1024;
// What ending needs at least.
constexpr uint64_t nccl_grace_ns = 1'000'000'000;

}  // namespace

NcclMember::NcclMember(std::shared_ptr<NcclHandle> handle, Ticket ticket)
    : handle_(std::move(handle)), ticket_(std::move(ticket)), aside_(ticket_.gpu) {
  watch_ = std::thread([this] { watch(); });
}

NcclMember::~NcclMember() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    watched_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
}

void NcclMember::limits(tn_comm_limits& out) const {
  list_taken_by_nccl(out);
  out.max_ops = most_nccl_parts;
}

Result<std::vector<Part>> NcclMember::parts_of(std::span<const tn_comm_op> ops) const {
  const auto anywhere = [](const tn_span& span, uint32_t, const char*) -> Result<uint64_t> {
    return cuda::place(span);
  };
  std::vector<Part> out;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    out.push_back(TN_TRY(part_of(ops[i], i, ticket_.rank, ticket_.size, anywhere)));
    const Status taken = NcclGroup::check(out.back());
    if (!taken.ok()) return Status(taken.code(), text("operation ", i, ": ", taken.message()));
  }
  return out;
}

// Where all ranks want it, every memory that is not borrowed: NCCL knows either all buffers of a call or none.
Result<std::vector<Memory*>> NcclMember::to_enroll(std::span<const tn_comm_op> ops, bool captured) const {
  if (ticket_.enrolling == Enrolling::none) return std::vector<Memory*>();
  std::vector<Memory*> memories;
  for (const tn_comm_op& op : ops) {
    for (const tn_span* span : {&op.send, &op.recv}) {
      if (span->space == TN_SPACE_MEMORY && span->memory != nullptr && span->bytes != 0)
        memories.push_back(&author::object<Memory>(span->memory));
    }
  }
  std::vector<Memory*> fresh = TN_TRY(handle_->not_enrolled(memories));
  if (!captured || fresh.empty() || ticket_.enrolling != Enrolling::windows) return fresh;
  return Status(TN_UNSUPPORTED, text("communicator '", ticket_.name,
                                     "': memory becomes a window with the first group it is used in, which "
                                     "is not captured: run such a group once before the capture"));
}

Status NcclMember::enroll(std::span<Memory* const> memories) {
  const bool windows = ticket_.enrolling == Enrolling::windows;
  for (Memory* const memory : memories) TN_TRY(windows ? enroll_window(*memory) : handle_->enroll(*memory));
  return {};
}

Status NcclMember::enroll_window(Memory& memory) {
  Status made = handle_->enroll_window(memory, Patience(ticket_.timeout_ns), [this] { return health(); });
  if (made.code() != TN_TIMEOUT) return made;
  return Status(TN_PEER_LOST, text("rank ", ticket_.rank, " of communicator '", ticket_.name,
                                   "' waited in vain for the others to make a window of ", memory.pages(),
                                   " bytes, for ", ticket_.timeout_ns / 1'000'000,
                                   " ms: with cuda.register = windows all ranks bring memory alike"));
}

// What is sent from where something is received is sent from a copy. A graph would come back to that copy when others use it.
Status NcclMember::set_aside(std::vector<Part>& parts, const Strand& strand, bool captured) {
  uint64_t bytes = 0;
  for (const Part& part : parts) bytes += overlaps(part) ? part.send_bytes : 0;
  if (bytes == 0) return {};
  if (captured) {
    return Status(TN_UNSUPPORTED,
                  "an all_to_all whose send and recv overlap is not captured: give it two buffers");
  }
  CUdeviceptr at = TN_TRY(aside_.take(bytes));
  for (Part& part : parts) {
    if (!overlaps(part)) continue;
    TN_TRY(strand.copy(at, part.from, part.send_bytes));
    part.from = at;
    at += part.send_bytes;
  }
  return {};
}

// In a capture only what is captured with it can be waited for; a replay has its place in its own stream.
Status NcclMember::follow_earlier(const Strand& strand, const std::shared_ptr<Capturing>& capture) {
  if (capture == nullptr) return end_ ? strand.follow(end_) : Status();
  if (capture_end_.capture.lock() != capture) capture_end_ = {.capture = capture};
  return capture_end_.end ? strand.follow(capture_end_.end) : Status();
}

// From here on the group is on its way, and its stream fails with it.
Status NcclMember::take_off(const Strand& strand, const Stream::Lent& lent, Stream& stream) {
  if (lent.capture != nullptr) {
    lent.capture->share(whole_);
    const std::lock_guard lock(mutex_);
    captured_ = true;
    watched_.notify_all();
    return {};
  }
  Flight flight{.fate = std::make_shared<Fate>()};
  flight.began = TN_TRY(strand.mark());
  stream.share(flight.fate);
  const std::lock_guard lock(mutex_);
  if (failure_) return Status(*failure_);
  flights_.push_back(std::move(flight));
  watched_.notify_all();
  return {};
}

Status NcclMember::land(const Strand& strand, const std::shared_ptr<Capturing>& capture) {
  EventRef end = TN_TRY(strand.mark());
  if (capture != nullptr) {
    capture_end_.end = std::move(end);
    return {};
  }
  end_ = end;
  const std::lock_guard lock(mutex_);
  if (!flights_.empty()) flights_.back().ended = std::move(end);
  return {};
}

// One group; NCCL may have to connect ranks before it can launch it.
Status NcclMember::launch(const std::vector<Part>& parts, CUstream stream) {
  CUdeviceptr word = 0;
  for (const Part& part : parts)
    if (part.kind == TN_COMM_BARRIER) word = TN_TRY(handle_->word());
  NcclGroup group(*handle_, parts, word);
  TN_TRY(group.begin(stream, ticket_.size));
  Status said = handle_->settle(Patience(ticket_.timeout_ns), [this] { return health(); });
  if (said.ok()) return group.end();
  if (said.code() != TN_TIMEOUT) return said;
  return Status(TN_PEER_LOST, text("rank ", ticket_.rank, " of communicator '", ticket_.name,
                                   "' waited in vain for the others to launch a group, for ",
                                   ticket_.timeout_ns / 1'000'000, " ms"));
}

Status NcclMember::submit(Stream& stream, std::span<const tn_comm_op> ops) {
  TN_TRY(health());
  if (ops.empty()) return {};
  TN_TRY(check_stream(stream, ticket_));
  std::vector<Part> parts = TN_TRY(parts_of(ops));
  const Context& context = *ticket_.gpu->context();
  const Bound bound(context.driver(), context.handle());
  const std::lock_guard order(ticket_.gpu->group_order());
  const Stream::Lent lent = TN_TRY(stream.lend(handle_));
  const Strand strand(*ticket_.gpu, lent.native);
  const std::vector<Memory*> fresh = TN_TRY(to_enroll(ops, lent.capture != nullptr));
  TN_TRY(follow_earlier(strand, lent.capture));
  TN_TRY(set_aside(parts, strand, lent.capture != nullptr));
  TN_TRY(take_off(strand, lent, stream));
  Status said = enroll(fresh);
  if (said.ok()) said = launch(parts, lent.native);
  Status landed = land(strand, lent.capture);
  if (said.ok()) said = std::move(landed);
  if (said.ok()) return said;
  fail(said.error());
  return health();  // what came first: the watch may have ended it while NCCL was looked at
}

Result<std::unique_ptr<Member>> NcclMember::split(int32_t color, int32_t key,
                                                  const tn_comm_options& options) {
  TN_TRY(health());
  Ticket ticket = ticket_;
  if (options.timeout_ns != 0) ticket.timeout_ns = options.timeout_ns;
  ticket.name = options.name != nullptr ? options.name : text(ticket_.name, ".", color);
  auto part =
      handle_->split(color, key, ticket.name, Patience(ticket.timeout_ns), [this] { return health(); });
  if (!part.ok()) {
    Error why = part.error();
    if (why.code == TN_TIMEOUT) {
      why.message = text("not all ranks came to the split of communicator '", ticket_.name, "' within ",
                         ticket.timeout_ns / 1'000'000, " ms");
    }
    fail(std::move(why));
    return health();
  }
  if (*part == nullptr) return std::unique_ptr<Member>();
  std::tie(ticket.rank, ticket.size) = TN_TRY((*part)->seat());
  return std::unique_ptr<Member>(std::make_unique<NcclMember>(std::move(*part), std::move(ticket)));
}

Status NcclMember::abort() {
  fail({.code = TN_ABORTED,
        .message = text("rank ", ticket_.rank, " aborted communicator '", ticket_.name, "'")});
  return {};
}

Status NcclMember::health() {
  const std::lock_guard lock(mutex_);
  return failure_ ? Status(*failure_) : Status();
}

bool NcclMember::torn_down(uint64_t timeout_ns) {
  constexpr uint64_t longest = uint64_t{1} << 60;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, longest)),
                           [this] { return torn_down_; });
}

Status NcclMember::call_off(uint64_t timeout_ns) {
  const std::string why =
      text("rank ", ticket_.rank, " destroyed communicator '", ticket_.name, "' with groups on their way");
  fail({.code = TN_ABORTED, .message = why});
  if (!torn_down(std::max(timeout_ns, nccl_grace_ns)) || !seen_out(*ticket_.gpu, end_, nccl_grace_ns))
    return Status(TN_TIMEOUT, text(why, ", which NCCL did not end in time"));
  return Status(TN_ABORTED, text(why, ", which were called off: synchronise their streams first"));
}

// A graph that was captured goes on using the library's communicator, which then ends with it.
Status NcclMember::finish(uint64_t timeout_ns) {
  if (!health().ok()) {
    if (torn_down(std::max(timeout_ns, nccl_grace_ns))) return {};
    return Status(TN_TIMEOUT,
                  text("communicator '", ticket_.name, "' was aborted, and NCCL does not end it"));
  }
  if (!seen_out(*ticket_.gpu, end_, timeout_ns)) return call_off(timeout_ns);
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    watched_.notify_all();
  }
  watch_.join();
  capture_end_ = {};
  if (captured_ && handle_.use_count() > 1) return {};
  Status left = handle_->finalize(Patience(std::max(timeout_ns, nccl_grace_ns)));
  if (left.ok()) return left;
  handle_->abort();
  if (left.code() != TN_TIMEOUT) return left;
  return Status(TN_TIMEOUT, text("communicator '", ticket_.name,
                                 "' was ended here alone: the other ranks did not leave it in time"));
}

}  // namespace tenon::cuda::comm
