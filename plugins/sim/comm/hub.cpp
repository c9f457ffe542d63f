// SPDX-License-Identifier: Apache-2.0
// hub.cpp: matching. Collectives fit when every rank's first that is not done is the same; messages, pair by pair, in order.
#include "hub.hpp"

#include "sums.hpp"

#include <tenon/comm.h>
#include <tenon/author/comm_checks.hpp>

#include <algorithm>

namespace tenon::sim::comm {

using author::text;

namespace {

bool is_message(const Part& part) { return part.kind == TN_COMM_SEND || part.kind == TN_COMM_RECV; }

// "all_reduce sum of 7 f32".
std::string told(const Part& part) {
  if (part.kind == TN_COMM_BARRIER) return "barrier";
  std::string out = author::kind_name(part.kind);
  if (author::reduces(part.kind)) out += text(" ", author::reduce_name(part.reduce));
  if (part.kind != TN_COMM_ALL_TO_ALL_V) out += text(" of ", part.count);
  out += text(" ", author::dtype_name(part.dtype));
  return author::is_rooted(part.kind) ? out + text(", root ", part.peer) : out;
}

bool fit(const Part& a, const Part& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.reduce == b.reduce && a.count == b.count &&
         a.peer == b.peer;
}

Status differ(uint64_t one, const Part& a, uint64_t other, const Part& b) {
  return Status(TN_MISMATCH, text("rank ", one, " brings ", told(a), " and rank ", other, " brings ", told(b),
                                  ": every rank must submit the same"));
}

// Whether a part has the bytes of its count; what came over a socket may say anything.
bool holds_what_it_says(const Part& part, uint64_t rank, uint64_t size) {
  const bool uneven = part.kind == TN_COMM_ALL_TO_ALL_V;
  if (part.peer >= size || (author::dtype_bits(part.dtype) < 8 && part.kind != TN_COMM_BARRIER)) return false;
  if (uneven && (part.send_counts.size() != size || part.recv_counts.size() != size)) return false;
  tn_comm_op op{};
  op.kind = part.kind;
  op.dtype = part.dtype;
  op.peer = static_cast<int32_t>(part.peer);
  op.count = part.count;
  op.send.bytes = part.bytes.size();
  op.recv.bytes = UINT64_MAX;
  op.send_counts = part.send_counts.data();
  op.recv_counts = part.recv_counts.data();
  const auto sides = author::comm_sides(op, 0, static_cast<uint32_t>(rank), static_cast<uint32_t>(size));
  return sides.ok() && sides->send == part.bytes.size();
}

// What all_to_all_v's counts say of every pair.
Status check_counts(std::span<const Part* const> parts) {
  if (parts[0]->kind != TN_COMM_ALL_TO_ALL_V) return {};
  for (uint64_t from = 0; from < parts.size(); ++from) {
    for (uint64_t to = 0; to < parts.size(); ++to) {
      const uint64_t sent = parts[from]->send_counts[to], wanted = parts[to]->recv_counts[from];
      if (sent == wanted) continue;
      return Status(TN_MISMATCH, text("all_to_all_v: rank ", from, " sends ", sent, " elements to rank ", to,
                                      ", which expects ", wanted));
    }
  }
  return {};
}

}  // namespace

Status Hub::enter(const Hello& hello) {
  if (failure_) return Status(*failure_);
  if (size_ == 0) size_ = hello.size;
  if (hello.size != size_) {
    Status said(TN_MISMATCH, text("rank ", hello.rank, " was told of ", hello.size, " ranks, and rank ",
                                  seats_.begin()->first, " of ", size_));
    fail(said.error());
    return said;
  }
  if (!seats_.try_emplace(hello.rank, Seat{.hello = hello}).second)
    return Status(TN_INVALID,
                  text("rank ", hello.rank, " of ", size_, " has come already: each rank joins once"));
  stands_ = seats_.size() == size_;
  const Frame news = stands_ ? frame_of(Topic::welcome, neighbours()) : frame_of(Topic::missing, missing());
  for (const auto& [rank, seat] : seats_) tell_(rank, news);
  return {};
}

// Who has not come.
std::string Hub::missing() const {
  std::string out;
  for (uint64_t rank = 0; rank < size_; ++rank) {
    if (!seats_.contains(rank)) out += text(out.empty() ? "rank " : ", rank ", rank);
  }
  return out;
}

// Who ends with the process that the hub lives in.
std::string Hub::neighbours() const {
  std::string out;
  for (const auto& [rank, seat] : seats_) {
    if (seat.hello.process == process_) out += text(out.empty() ? "rank " : ", rank ", rank);
  }
  return out;
}

void Hub::bring(uint64_t rank, std::vector<Part> group, uint64_t now_ns) {
  Seat& seat = seats_.at(rank);
  if (failure_ || !stands_ || seat.waits()) return;
  seat.group.clear();
  for (Part& part : group) {
    if (!holds_what_it_says(part, rank, size_))
      return fail(
          {.code = TN_INTERNAL, .message = text("rank ", rank, " brings a ", told(part), " of other bytes")});
    seat.group.push_back({.part = std::move(part)});
  }
  seat.due_ns = now_ns + std::min(seat.hello.timeout_ns, UINT64_MAX - 1 - now_ns);
  settle();
}

void Hub::leave(uint64_t rank) {
  const auto found = seats_.find(rank);
  if (found == seats_.end() || !found->second.here) return;
  found->second.here = false;
  if (!stands_)
    return fail({.code = TN_PEER_LOST, .message = text("rank ", rank, " gave up before all had come")});
  if (!failure_) settle();
}

void Hub::lose(uint64_t rank, std::string_view why) {
  const auto found = seats_.find(rank);
  if (found == seats_.end() || !found->second.here) return;
  found->second.here = false;
  fail({.code = TN_PEER_LOST, .message = text("rank ", rank, " is gone: ", why)});
}

void Hub::fail(const Error& why) {
  if (failure_) return;
  failure_ = why;
  for (const auto& [rank, seat] : seats_) {
    if (seat.here) tell_(rank, frame_of(why));
  }
}

uint64_t Hub::due() const noexcept {
  uint64_t out = UINT64_MAX;
  if (failure_) return out;
  for (const auto& [rank, seat] : seats_) out = std::min(out, seat.due_ns);
  return out;
}

void Hub::look(uint64_t now_ns) {
  for (const auto& [rank, seat] : seats_) {
    if (failure_ || seat.due_ns > now_ns) continue;
    const auto undone = std::ranges::find(seat.group, false, &Pending::done);
    return fail({.code = TN_TIMEOUT,
                 .message = text(absent_for(seat), " did not come to ", told(undone->part), " of rank ", rank,
                                 " within ", seat.hello.timeout_ns / 1'000'000, " ms")});
  }
}

// Whom a rank waits for, in words.
std::string Hub::absent_for(const Seat& seat) const {
  const auto undone = std::ranges::find(seat.group, false, &Pending::done);
  if (is_message(undone->part)) return text("rank ", undone->part.peer);
  std::string out;
  for (const auto& [rank, other] : seats_) {
    if (!other.waits()) out += text(out.empty() ? "rank " : ", rank ", rank);
  }
  return out.empty() ? "a rank that is held up by another operation" : out;
}

Hub::Pending* Hub::front(Seat& seat) const {
  const auto found =
      std::ranges::find_if(seat.group, [](const Pending& p) { return !p.done && !is_message(p.part); });
  return found == seat.group.end() ? nullptr : &*found;
}

void Hub::settle() {
  bool moved = true;
  while (moved && !failure_) {
    moved = settle_collective();
    for (const auto& [rank, seat] : seats_) moved = (!failure_ && settle_messages(rank)) || moved;
  }
  if (!failure_) answer();
}

bool Hub::settle_collective() {
  std::vector<Pending*> fronts;
  uint64_t one = 0;
  for (auto& [rank, seat] : seats_) {
    Pending* const mine = front(seat);
    if (mine == nullptr) continue;
    if (fronts.empty()) one = rank;
    if (!fronts.empty() && !fit(fronts[0]->part, mine->part)) {
      fail(differ(one, fronts[0]->part, rank, mine->part).error());
      return false;
    }
    fronts.push_back(mine);
  }
  if (fronts.empty()) return false;
  for (const auto& [rank, seat] : seats_) {
    if (seat.here) continue;
    fail({.code = TN_PEER_LOST,
          .message = text("rank ", rank, " has left the communicator, and rank ", one, " brings ",
                          told(fronts[0]->part))});
    return false;
  }
  if (fronts.size() < size_) return false;
  std::vector<const Part*> parts;
  for (const Pending* pending : fronts) parts.push_back(&pending->part);
  if (const Status said = check_counts(parts); !said.ok()) {
    fail(said.error());
    return false;
  }
  std::vector<Bytes> results = results_of(parts);
  for (size_t i = 0; i < fronts.size(); ++i) {
    fronts[i]->result = std::move(results[i]);
    fronts[i]->done = true;
  }
  return true;
}

// Delivers what has been sent to `rank`, the oldest of each pair first.
bool Hub::settle_messages(uint64_t rank) {
  bool moved = false;
  std::vector<uint64_t> held;  // senders whose next message has not come
  for (Pending& wanted : seats_.at(rank).group) {
    const uint64_t from = wanted.part.peer;
    if (wanted.done || wanted.part.kind != TN_COMM_RECV || std::ranges::count(held, from) != 0) continue;
    Seat& sender = seats_.at(from);
    const auto sent = std::ranges::find_if(sender.group, [&](const Pending& p) {
      return !p.done && p.part.kind == TN_COMM_SEND && p.part.peer == rank;
    });
    if (sent == sender.group.end()) {
      held.push_back(from);
      if (sender.here) continue;
      fail({.code = TN_PEER_LOST,
            .message = text("rank ", from, " has left the communicator, and rank ", rank,
                            " expects a message of it")});
      return false;
    }
    if (sent->part.dtype != wanted.part.dtype || sent->part.count != wanted.part.count) {
      fail(differ(from, sent->part, rank, wanted.part).error());
      return false;
    }
    wanted.result = std::move(sent->part.bytes);
    wanted.done = sent->done = moved = true;
  }
  return moved;
}

// Tells every rank whose group is done.
void Hub::answer() {
  for (auto& [rank, seat] : seats_) {
    if (!seat.waits() || std::ranges::any_of(seat.group, [](const Pending& p) { return !p.done; })) continue;
    std::vector<Bytes> results;
    for (Pending& pending : seat.group) results.push_back(std::move(pending.result));
    seat.group.clear();
    seat.due_ns = UINT64_MAX;
    tell_(rank, frame_of(results));
  }
}

}  // namespace tenon::sim::comm
