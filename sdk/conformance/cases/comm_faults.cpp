// SPDX-License-Identifier: Apache-2.0
// comm_faults.cpp: level 3, what goes wrong between ranks: calls that do not fit, aborts, ranks that die or leave early.
//
// Invariant: every rank that is left is told a code within the patience of a case; nobody hangs.
#include "conformance/case.hpp"
#include "conformance/comm/trial.hpp"
#include "conformance/gate.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace tenon::conform {

namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t ms = 1'000'000;
constexpr uint64_t count = 2'501;
constexpr uint64_t bytes = 4 * count;

Status wrong(const std::string& story) { return Status(TN_INTERNAL, story); }
std::string said_word(const Status& said) { return said.ok() ? "TN_OK" : std::string(said.message()); }

// What a rank is told of one operation: by the submit, or by its stream.
Status outcome(const Rank& rank, const tn_comm_op& op) {
  TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
  return rank.stream.finish();
}

tn_comm_op sum_of(const Memory& memory) {
  return all_reduce(memory.span(0, bytes), memory.span(0, bytes), TN_DTYPE_f32, count);
}

// All ranks must be told TN_MISMATCH of operations that do not fit; `what` does not.
Status mismatched(Context& t, Rank& rank, const tn_comm_op& op, const std::string& what) {
  rank.forgive();
  const Status said = outcome(rank, op);
  static_cast<void>(rank.stream.destroy(TN_DESTROY_ABANDON));  // before the memory it works on
  t.check(true);
  if (said.code() == TN_MISMATCH) return rank.meet();
  return rank.agree(wrong(words(what, ": expected TN_MISMATCH on every rank, got ", said_word(said))));
}

// One rank's operation is `changed`.
template <class Change>
Status found_on_all(Context& t, const char* what, Change&& changed) {
  TN_TRY(needs_communicators(t));
  const auto odd = static_cast<uint32_t>(t.random().below(3));
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(3 * bytes));
    TN_TRY(rank.stream.fill(memory.span(), 1, 4));
    tn_comm_op op = sum_of(memory);
    if (rank.rank == odd) changed(op);
    return mismatched(t, rank, op, words("one rank's ", what, " is another"));
  });
}

bool is_one_of(const Status& said, std::initializer_list<int32_t> codes) {
  return std::find(codes.begin(), codes.end(), said.code()) != codes.end();
}

}  // namespace

CONFORM_CASE(3, "mismatch: another count is TN_MISMATCH on every rank") {
  return found_on_all(t, "count", [](tn_comm_op& op) { op.count -= 1; });
}

CONFORM_CASE(3, "mismatch: another type of the same width is TN_MISMATCH on every rank") {
  TN_TRY(needs_sums(t, {TN_DTYPE_i32}));
  return found_on_all(t, "type", [](tn_comm_op& op) { op.dtype = TN_DTYPE_i32; });
}

CONFORM_CASE(3, "mismatch: another reduction is TN_MISMATCH on every rank") {
  return found_on_all(t, "reduction", [](tn_comm_op& op) { op.reduce = TN_REDUCE_MAX; });
}

CONFORM_CASE(3, "mismatch: another operation is TN_MISMATCH on every rank") {
  return found_on_all(t, "operation", [](tn_comm_op& op) {
    op.kind = TN_COMM_BROADCAST;
    op.peer = 0;
  });
}

CONFORM_CASE(3, "mismatch: another root is TN_MISMATCH on every rank") {
  TN_TRY(needs_communicators(t));
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(bytes));
    tn_comm_op op = sum_of(memory);
    op.kind = TN_COMM_BROADCAST;
    op.peer = rank.rank == 2 ? 1 : 0;
    return mismatched(t, rank, op, "one rank's root is another");
  });
}

CONFORM_CASE(3, "mismatch: another type of what is only moved is TN_MISMATCH on every rank") {
  TN_TRY(needs_sums(t, {TN_DTYPE_i32, TN_DTYPE_f32}));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(2 * bytes));
    tn_comm_op op =
        all_reduce(memory.span(0, bytes), memory.span(), rank.rank == 0 ? TN_DTYPE_f32 : TN_DTYPE_i32, count);
    op.kind = TN_COMM_ALL_GATHER;
    op.send = memory.span(rank.rank * bytes, bytes);
    return mismatched(t, rank, op, "f32 met i32 in an all_gather");
  });
}

CONFORM_CASE(3, "abort: it ends a collective that hangs, on every rank, with TN_ABORTED") {
  TN_TRY(needs_communicators(t));
  const auto body = [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(bytes));
    const tn_comm_op op = sum_of(memory);
    rank.forgive();
    if (rank.rank == 2) return rank.meet();  // never comes
    const Status said = outcome(rank, op);
    static_cast<void>(rank.stream.destroy(TN_DESTROY_ABANDON));
    if (said.code() != TN_ABORTED)
      return rank.agree(wrong(words("it was aborted: expected TN_ABORTED, got ", said_word(said))));
    return rank.meet();
  };
  const auto watch = [&](std::span<Rank* const> ranks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const auto start = Clock::now();
    for (Rank* const rank : ranks) {
      const Status said = rank->comm.abort();
      t.check(said.ok(), said.message());
    }
    // It marks and returns: what takes as long as a network would is no mark.
    const auto took = (Clock::now() - start) / std::chrono::milliseconds(1);
    t.check(took < 1'000, "comm.abort of three ranks took ", took, " ms: it marks and returns at once");
  };
  return as_threads(t, 3, body, {}, watch);
}

CONFORM_CASE(3, "abort: afterwards submit and health say so, and a new communicator works") {
  TN_TRY(needs_communicators(t));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    Communicator other = TN_TRY(rank.join("to be aborted"));
    Stream stream = TN_TRY(rank.device.stream());
    other.forgive();
    stream.forgive();
    TN_TRY(rank.meet());
    TN_TRY(other.abort());
    TN_TRY(other.abort());  // a second time is no error
    const tn_comm_op op = all_reduce({}, {}, TN_DTYPE_f32, 0);
    Status submitted = other.submit(stream, {&op, 1});
    if (submitted.ok()) submitted = stream.finish();
    const Status health = other.health();
    const bool good = submitted.code() == TN_ABORTED && health.code() == TN_ABORTED;
    TN_TRY(rank.agree(good ? Status()
                           : wrong(words("after abort expected TN_ABORTED of submit and health, got ",
                                         said_word(submitted), " and ", said_word(health)))));
    const Communicator fresh = TN_TRY(rank.join("after the abort"));
    const Exchange small{.count = 99, .seed = 4};
    return rank.agree(perform(rank, fresh, rank.stream, small));
  });
}

CONFORM_CASE(3, "abort: one communicator ends, the others of the same ranks go on") {
  TN_TRY(needs_communicators(t));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    Communicator doomed = TN_TRY(rank.join("doomed"));
    doomed.forgive();
    const Communicator spared = TN_TRY(rank.join("spared"));
    TN_TRY(rank.meet());
    TN_TRY(doomed.abort());
    const Exchange small{.count = 1'234, .seed = 8};
    TN_TRY(rank.agree(perform(rank, spared, rank.stream, small)));
    return rank.agree(perform(rank, rank.comm, rank.stream, small));
  });
}

CONFORM_CASE(3, "destroy: what was submitted by all is seen out") {
  TN_TRY(needs_sums(t, {TN_DTYPE_i32}));
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(bytes));
    const Stream stream = TN_TRY(rank.device.stream());
    Communicator comm = TN_TRY(rank.join("short-lived"));
    TN_TRY(stream.fill(memory.span(), 1, 4));
    const tn_comm_op op = all_reduce(memory.span(), memory.span(), TN_DTYPE_i32, count);
    for (int i = 0; i < 4; ++i) TN_TRY(comm.submit(stream, {&op, 1}));
    TN_TRY(rank.agree(comm.destroy(t.settings().patience_ns)));
    const Bytes found = TN_TRY(download(stream, memory.span()));
    const bool good = std::equal(found.begin() + 4, found.end(), found.begin()) && found[0] == std::byte{81};
    return rank.agree(good ? Status()
                           : wrong("four sums of three ranks were not done when destroy said TN_OK"));
  });
}

CONFORM_CASE(3, "destroy: with work that cannot end it comes back, and every rank is let go") {
  TN_TRY(needs_communicators(t));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(bytes));
    Stream stream = TN_TRY(rank.device.stream());
    Communicator comm = TN_TRY(rank.join("left early"));
    stream.forgive();
    comm.forgive();
    const tn_comm_op op = sum_of(memory);
    if (rank.rank == 0) {
      TN_TRY(comm.submit(stream, {&op, 1}));
      const uint64_t value = TN_TRY(stream.record());
      const Status left = comm.destroy(50 * ms);
      const Status said = is_one_of(left, {TN_ABORTED, TN_TIMEOUT}) ? stream.sync(value) : Status();
      const bool good = said.code() == TN_ABORTED || said.code() == TN_PEER_LOST;
      TN_TRY(rank.agree(good ? Status()
                             : wrong(words("destroy with a collective in flight said ", said_word(left),
                                           ", and the stream then ", said_word(said),
                                           ": expected TN_ABORTED of both, or TN_TIMEOUT of destroy"))));
    } else {
      TN_TRY(rank.meet());
      Status said = comm.submit(stream, {&op, 1});
      if (said.ok()) said = stream.finish();
      const bool good = is_one_of(said, {TN_ABORTED, TN_PEER_LOST, TN_TIMEOUT});
      TN_TRY(good ? Status()
                  : wrong(words("the other rank has left: expected TN_PEER_LOST, got ", said_word(said))));
    }
    return {};
  });
}

// Ranks that die are processes.

namespace {

// Shorter than a stream is waited for, so that the communicator speaks first.
uint64_t loss_timeout_ns(const Context& t) { return t.settings().patience_ns / 3 * 2; }

[[noreturn]] void die() {
  raise(SIGKILL);
  std::abort();  // not reached
}

// What a survivor is told of the next collective, and by when.
Status survive(Rank& rank, uint32_t dead) {
  rank.forgive();
  const Memory memory = TN_TRY(rank.device.alloc(bytes));
  const Status said = outcome(rank, sum_of(memory));
  static_cast<void>(rank.stream.destroy(TN_DESTROY_ABANDON));
  if (!is_one_of(said, {TN_PEER_LOST, TN_TIMEOUT})) {
    return wrong(words("rank ", dead, " was killed: expected TN_PEER_LOST or TN_TIMEOUT within ",
                       loss_timeout_ns(rank.t) / ms, " ms, got ", said_word(said)));
  }
  if (std::string(said.message()).find(words("rank ", dead)) == std::string::npos)
    return wrong(words("rank ", dead, " was killed, and the message does not name it: ", said.message()));
  return {};
}

}  // namespace

CONFORM_CASE(3, "lost: a rank that is killed is named to the others in time") {
  TN_TRY(needs_communicators(t));
  const auto dead = static_cast<uint32_t>(t.random().below(3));
  const Exchange small{.count = 777, .seed = t.random().next()};
  const auto body = [&](Rank& rank) -> Status {
    TN_TRY(perform(rank, rank.comm, rank.stream, small));
    if (rank.rank == dead) die();
    return survive(rank, dead);
  };
  return as_processes(t, 3, body, {.timeout_ns = loss_timeout_ns(t)}, dead);
}

CONFORM_CASE(3, "lost: a rank that is killed with a collective in flight is named to the others in time") {
  TN_TRY(needs_communicators(t));
  const auto dead = static_cast<uint32_t>(t.random().below(3));
  const auto body = [&](Rank& rank) -> Status {
    if (rank.rank != dead) return survive(rank, dead);
    const Memory memory = TN_TRY(rank.device.alloc(bytes));
    Gate gate = TN_TRY(Gate::make(t, rank.device));  // its own part never begins
    TN_TRY(gate.hold(rank.stream));
    const tn_comm_op op = sum_of(memory);
    TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
    die();
  };
  return as_processes(t, 3, body, {.timeout_ns = loss_timeout_ns(t)}, dead);
}

CONFORM_CASE(3, "lost: those who are left make a new communicator and go on") {
  TN_TRY(needs_communicators(t));
  const auto dead = static_cast<uint32_t>(t.random().below(3));
  const Exchange small{.count = 1'777, .seed = t.random().next()};
  const auto body = [&](Rank& rank) -> Status {
    TN_TRY(perform(rank, rank.comm, rank.stream, small));
    if (rank.rank == dead) die();
    TN_TRY(survive(rank, dead));
    Rank next{.t = t,
              .device = rank.device,
              .store = rank.store,
              .rank = rank.rank > dead ? rank.rank - 1 : rank.rank,
              .size = 2,
              .together = nullptr};
    next.stream = TN_TRY(rank.device.stream());
    next.comm = TN_TRY(next.join("survivors"));
    return perform(next, next.comm, next.stream, small);
  };
  return as_processes(t, 3, body, {.timeout_ns = loss_timeout_ns(t)}, dead);
}

}  // namespace tenon::conform
