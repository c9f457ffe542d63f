// SPDX-License-Identifier: Apache-2.0
// communicators.cpp: level 3, joining and leaving: ids, limits, creation, bad input, several at once.
#include "conformance/case.hpp"
#include "conformance/comm/trial.hpp"
#include "conformance/guard.hpp"
#include "conformance/open_files.hpp"

#include <chrono>
#include <cstring>
#include <thread>

namespace tenon::conform {

namespace {

constexpr uint64_t one_ms = 1'000'000;

uint64_t elapsed_ms(std::chrono::steady_clock::time_point since) {
  return static_cast<uint64_t>((std::chrono::steady_clock::now() - since) / std::chrono::milliseconds(1));
}

// A communicator of one rank, on the case's own thread.
struct Alone {
  MeetingPlace place;
  FolderStore store;
  explicit Alone(MeetingPlace made) : place(std::move(made)), store(place.folder()) {}
  Result<Communicator> join(Context& t, const Device& device, uint32_t rank, uint32_t size,
                            std::span<const std::byte> id, const CommForm& form = {}) const {
    return Communicator::create(t, device, rank, size, id, store.table(), "alone", form);
  }
};

// All of the same must work after something was refused.
Status still_good(const Rank& rank) {
  const Exchange small{.count = 9, .seed = 5};
  return perform(rank, rank.comm, rank.stream, small);
}

// One op that must be refused at once, by the submit itself, as one of two codes.
Status refused(const Rank& rank, const char* what, const tn_comm_op& op, int32_t code,
               int32_t or_else = TN_OK) {
  const Status said = rank.comm.submit(rank.stream, {&op, 1});
  if (said.code() == code || (or_else != TN_OK && said.code() == or_else)) return {};
  return Status(TN_INTERNAL, words(what, ": expected ", code_name(code),
                                   or_else != TN_OK ? words(" or ", code_name(or_else)) : "",
                                   " of the submit, got ", said.ok() ? "TN_OK" : said.message()));
}

}  // namespace

CONFORM_CASE(3, "communicator: two ids of one length differ, and another length is TN_INVALID") {
  TN_TRY(needs_communicators(t));
  const Device& device = *TN_TRY(t.device());
  const Bytes first = TN_TRY(make_id(t, device))
  , second = TN_TRY(make_id(t, device));
  t.check(first.size() == second.size(), "comm.id_bytes said ", first.size(), ", then ", second.size());
  t.check(first != second, "two ids are equal: two communicators would meet each other's ranks");
  const tn_comm_api& api = device.api().comm;
  Bytes larger(first.size() + 1);
  t.refuses(TN_INVALID, "comm.make_id with one byte more",
            [&](tn_error* e) { return api.make_id(device.handle(), larger.data(), larger.size(), e); });
  const Alone alone(TN_TRY(MeetingPlace::make()));
  const auto cut = alone.join(t, device, 0, 1, std::span(first).first(first.size() - 1));
  t.check(cut.code() == TN_INVALID, "comm.create with an id that is a byte short: expected TN_INVALID, got ",
          cut.ok() ? "TN_OK" : cut.message());
  return {};
}

CONFORM_CASE(3, "communicator: a rank outside of the size is TN_INVALID") {
  TN_TRY(needs_communicators(t));
  const Device& device = *TN_TRY(t.device());
  const Bytes id = TN_TRY(make_id(t, device));
  const Alone alone(TN_TRY(MeetingPlace::make()));
  struct Wrong {
    uint32_t rank, size;
  };
  for (const Wrong& wrong : {Wrong{1, 1}, Wrong{7, 3}, Wrong{0, 0}}) {
    const auto said = alone.join(t, device, wrong.rank, wrong.size, id, {.timeout_ns = 200 * one_ms});
    t.check(said.code() == TN_INVALID, "rank ", wrong.rank, " of ", wrong.size, ": expected TN_INVALID, got ",
            said.ok() ? "TN_OK" : said.message());
  }
  return {};
}

CONFORM_CASE(3, "communicator: its limits list only what the ABI knows, and whole structs are not needed") {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  constexpr uint64_t kinds = (uint64_t{2} << TN_COMM_BARRIER) - 2;
  constexpr uint64_t reductions = (uint64_t{2} << TN_REDUCE_PREMUL_SUM) - 2;
  t.check((limits.kind_mask & ~kinds) == 0, "kind_mask ", hex(limits.kind_mask),
          " lists kinds that do not exist");
  t.check((limits.reduce_mask & ~reductions) == 0, "reduce_mask ", hex(limits.reduce_mask),
          " lists reductions that do not exist");
  t.check((limits.reducible_mask & ~limits.dtype_mask) == 0, "reducible_mask ", hex(limits.reducible_mask),
          " lists types that dtype_mask ", hex(limits.dtype_mask), " does not");
  t.check(limits.kind_mask != 0 && limits.dtype_mask != 0, "the limits list no kind, or no type");
  return as_threads(t, 1, [&](Rank& rank) -> Status {
    tn_comm_limits some;
    std::memset(&some, 0x5A, sizeof some);
    some.size = offsetof(tn_comm_limits, reduce_mask);
    TN_TRY(t.call("comm.limits",
                  [&](tn_error* e) { return rank.device.api().comm.limits(rank.comm.handle(), &some, e); }));
    t.check(some.kind_mask == limits.kind_mask, "a shorter struct is told another kind_mask");
    t.check(some.reduce_mask == 0x5A5A5A5A5A5A5A5Au,
            "comm.limits writes past the size that the caller knows");
    return {};
  });
}

CONFORM_CASE(3, "communicator: creation ends when the other ranks do not come") {
  TN_TRY(needs_communicators(t));
  const Device& device = *TN_TRY(t.device());
  const Bytes id = TN_TRY(make_id(t, device));
  const Alone alone(TN_TRY(MeetingPlace::make()));
  const auto start = std::chrono::steady_clock::now();
  const auto said = alone.join(t, device, 0, 3, id, {.timeout_ns = 250 * one_ms});
  t.check(said.code() == TN_TIMEOUT, "one of three ranks, with 250 ms to wait: expected TN_TIMEOUT, got ",
          said.ok() ? "TN_OK" : said.message());
  t.check(elapsed_ms(start) * one_ms < 250 * one_ms + t.settings().patience_ns,
          "comm.create came back long after its timeout");
  return {};
}

CONFORM_CASE(3, "communicator: a creation that does not block is TN_BUSY until all have come") {
  TN_TRY(needs_communicators(t));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    Communicator other;
    if (rank.rank == 1) TN_TRY(rank.meet());  // rank 0 has begun, and cannot have ended
    auto made = rank.join("not blocking", {.flags = TN_COMM_NON_BLOCKING});
    if (made.code() == TN_UNSUPPORTED && rank.rank == 0)
      t.warn(words("no creation without blocking: ", made.message()));
    const bool refuses = made.code() == TN_UNSUPPORTED;
    if (!refuses) other = TN_TRY(std::move(made));
    if (rank.rank == 0) {
      const Status said = refuses ? Status(TN_BUSY, "") : other.health();
      TN_TRY(rank.agree(said.code() == TN_BUSY
                            ? Status()
                            : Status(TN_INTERNAL, words("before rank 1 came, health must be TN_BUSY: ",
                                                        said.ok() ? "TN_OK" : said.message()))));
    }
    if (refuses) return {};
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(t.settings().patience_ns);
    Status said = other.health();
    while (said.code() == TN_BUSY && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      said = other.health();
    }
    TN_TRY(std::move(said));
    const Exchange small{.count = 9, .seed = 5};
    TN_TRY(rank.agree(perform(rank, other, rank.stream, small)));
    return {};
  });
}

CONFORM_CASE(3, "communicator: ranks that were told of different sizes are all refused") {
  TN_TRY(needs_communicators(t));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    if (rank.rank == 0) TN_TRY(rank.store.set("of two sizes", TN_TRY(make_id(t, rank.device))));
    const Bytes id = TN_TRY(rank.store.get("of two sizes", t.settings().patience_ns));
    const auto said = Communicator::create(t, rank.device, rank.rank, 2 + rank.rank, id, rank.store.table(),
                                           "two sizes", {.timeout_ns = 300 * one_ms});
    return rank.agree(said.ok() ? Status(TN_INTERNAL, "the sizes 2 and 3 made a communicator") : Status());
  });
}

CONFORM_CASE(3, "communicator: bad operations are refused at once, and it stays good") {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(256));
    const tn_comm_op good = all_reduce(memory.span(0, 64), memory.span(128, 64), TN_DTYPE_f32, 16);
    const auto with = [&](auto&& change) {
      tn_comm_op op = good;
      change(op);
      return op;
    };
    const auto all = [&]() -> Status {
      TN_TRY(refused(rank, "a kind that does not exist", with([](tn_comm_op& o) { o.kind = 40; }),
                     TN_UNSUPPORTED, TN_INVALID));
      TN_TRY(refused(rank, "kind 0", with([](tn_comm_op& o) { o.kind = 0; }), TN_UNSUPPORTED, TN_INVALID));
      TN_TRY(refused(rank, "a type that does not exist", with([](tn_comm_op& o) { o.dtype = 60; }),
                     TN_UNSUPPORTED, TN_INVALID));
      TN_TRY(refused(rank, "a reduction that does not exist", with([](tn_comm_op& o) { o.reduce = 30; }),
                     TN_UNSUPPORTED, TN_INVALID));
      TN_TRY(refused(rank, "a send of too few bytes", with([](tn_comm_op& o) { o.send.bytes = 63; }),
                     TN_INVALID));
      TN_TRY(refused(rank, "a recv of too few bytes", with([](tn_comm_op& o) { o.recv.bytes = 63; }),
                     TN_INVALID));
      TN_TRY(refused(rank, "a span that leaves its memory", with([](tn_comm_op& o) { o.recv.offset = 200; }),
                     TN_INVALID));
      TN_TRY(refused(rank, "a count that overflows", with([](tn_comm_op& o) { o.count = UINT64_MAX / 2; }),
                     TN_INVALID));
      TN_TRY(refused(rank, "sides that overlap by half", with([&](tn_comm_op& o) { o.recv.offset = 32; }),
                     TN_INVALID));
      if ((limits.kind_mask >> TN_COMM_BROADCAST & 1) != 0) {
        const auto root = [&](int32_t peer) {
          return with([&](tn_comm_op& o) {
            o.kind = TN_COMM_BROADCAST;
            o.peer = peer;
          });
        };
        TN_TRY(refused(rank, "a root past the last rank", root(2), TN_INVALID));
        TN_TRY(refused(rank, "a negative root", root(-1), TN_INVALID));
      }
      if ((limits.kind_mask >> TN_COMM_ALL_TO_ALL_V & 1) != 0)
        TN_TRY(refused(rank, "uneven counts that are NULL",
                       with([](tn_comm_op& o) { o.kind = TN_COMM_ALL_TO_ALL_V; }), TN_INVALID));
      return {};
    };
    TN_TRY(rank.agree(all()));
    return rank.agree(still_good(rank));
  });
}

CONFORM_CASE(3, "communicator: what the limits do not list is TN_UNSUPPORTED, and never another type") {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  return as_threads(t, 1, [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(512));
    uint32_t asked = 0;
    for (uint32_t dtype = TN_DTYPE_bool; dtype <= TN_DTYPE_f64; ++dtype) {
      if ((limits.reducible_mask >> dtype & 1) != 0) continue;
      ++asked;
      TN_TRY(refused(rank, "a type that is not in reducible_mask",
                     all_reduce(memory.span(0, 128), memory.span(256, 128), dtype, 4), TN_UNSUPPORTED));
    }
    if (asked == 0) t.check(true);
    return still_good(rank);
  });
}

CONFORM_CASE(3, "communicator: several at once keep their ranks and their numbers apart") {
  TN_TRY(needs_communicators(t));
  const int rounds = t.quick() ? 24 : 200;
  struct Step {
    uint32_t comm, stream;
    Exchange trial;
  };
  std::vector<Step> steps;
  for (int i = 0; i < rounds; ++i) {
    const auto comm = static_cast<uint32_t>(t.random().below(3));
    steps.push_back(
        {.comm = comm,
         .stream = static_cast<uint32_t>(t.random().below(2)),
         .trial = {
             .count = t.random().below(2'000), .in_place = t.random().chance(2), .seed = t.random().next()}});
  }
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    const Communicator second = TN_TRY(rank.join("second"))
    , third = TN_TRY(rank.join("third"));
    const Stream other = TN_TRY(rank.device.stream());
    const Communicator* const comms[] = {&rank.comm, &second, &third};
    for (const Step& step : steps)
      TN_TRY(
          rank.agree(perform(rank, *comms[step.comm], step.stream == 0 ? rank.stream : other, step.trial)));
    return rank.meet();
  });
}

CONFORM_CASE(3, "communicator: several are in flight at once, each on a stream of its own") {
  TN_TRY(needs_sums(t, {TN_DTYPE_i32}));
  const uint64_t count = t.quick() ? 4'001 : 100'001;
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    std::vector<Communicator> comms;
    std::vector<Memory> memories;
    std::vector<Stream> streams;
    for (uint32_t i = 0; i < 4; ++i) {
      comms.push_back(TN_TRY(rank.join(words("flight ", i))));
      memories.push_back(TN_TRY(rank.device.alloc(4 * count)));
      streams.push_back(TN_TRY(rank.device.stream()));
      TN_TRY(streams[i].fill(memories[i].span(), i + 1, 4));
    }
    for (int round = 0; round < 3; ++round) {
      for (uint32_t i = 0; i < 4; ++i) {
        const tn_comm_op op = all_reduce(memories[i].span(), memories[i].span(), TN_DTYPE_i32, count);
        TN_TRY(comms[i].submit(streams[i], {&op, 1}));
      }
    }
    Status said;
    for (uint32_t i = 0; i < 4 && said.ok(); ++i) {
      const Bytes found = TN_TRY(download(streams[i], memories[i].span()));
      int32_t last = 0;
      std::memcpy(&last, found.data() + found.size() - 4, 4);
      const int32_t wanted = static_cast<int32_t>(i + 1) * 27;
      if (last != wanted)
        said = Status(TN_INTERNAL, words("communicator ", i, " gave ", last, " instead of ", wanted));
    }
    return rank.agree(std::move(said));
  });
}

CONFORM_CASE(3, "communicator: made and destroyed many times it leaves nothing behind") {
  TN_TRY(needs_communicators(t));
  const Device& device = *TN_TRY(t.device());
  const auto once = [&](int i) {
    return as_threads(t, 2, [&](Rank& rank) -> Status {
      for (int k = 0; k < 3; ++k) {
        const Communicator more = TN_TRY(rank.join(words("more ", i, " ", k)));
        const Exchange small{.count = 5, .seed = 3};
        TN_TRY(rank.agree(perform(rank, more, rank.stream, small)));
      }
      return rank.meet();
    });
  };
  TN_TRY(once(0));  // what is made once and kept
  const int64_t before = open_files();
  const uint64_t held = TN_TRY(device.memory_info())
  .used_here_bytes;
  for (int i = 1; i <= (t.quick() ? 6 : 40); ++i) TN_TRY(once(i));
  const int64_t after = open_files();
  t.check(after <= before, "file descriptors went from ", before, " to ", after,
          " although every communicator has ended");
  const uint64_t now = TN_TRY(device.memory_info())
  .used_here_bytes;
  t.check(now <= held, "used_here_bytes went from ", held, " to ", now,
          " although every communicator has ended");
  return {};
}

}  // namespace tenon::conform
