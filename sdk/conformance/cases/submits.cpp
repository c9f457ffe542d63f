// SPDX-License-Identifier: Apache-2.0
// submits.cpp: level 3, groups and streams: what runs together, what waits for what, and what gives the same bits.
#include "conformance/case.hpp"
#include "conformance/comm/trial.hpp"
#include "conformance/gate.hpp"
#include "conformance/ops/number.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace tenon::conform {

namespace {

constexpr uint64_t moment_ns = 40'000'000;  // in which nothing may happen

Status wrong_submit(const std::string& story) { return Status(TN_INTERNAL, story); }

// Leaves the case as unsupported where no stream can be held back.
Status needs_gate(Context& t) {
  TN_TRY(needs_communicators(t));
  const Gate some = TN_TRY(Gate::make(t, *TN_TRY(t.device())));
  return {};
}

Status needs_kinds(Context& t, std::initializer_list<uint32_t> kinds) {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  for (const uint32_t kind : kinds) {
    TN_TRY(t.needs((limits.kind_mask >> kind & 1) != 0, words("comm.", kind_name(kind)),
                   "the communicator's limits do not list it"));
  }
  return {};
}

template <class T>
T element(const Bytes& bytes, uint64_t index) {
  T out;
  std::memcpy(&out, bytes.data() + index * sizeof(T), sizeof(T));
  return out;
}

}  // namespace

CONFORM_CASE(3, "submit: an empty group and one of zero counts do nothing") {
  TN_TRY(needs_communicators(t));
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    TN_TRY(rank.comm.submit(rank.stream, {}));
    std::vector<tn_comm_op> group(3, all_reduce({}, {}, TN_DTYPE_f32, 0));
    TN_TRY(rank.comm.submit(rank.stream, group));
    TN_TRY(rank.stream.finish());
    const Exchange small{.count = 3, .seed = 1};
    return rank.agree(perform(rank, rank.comm, rank.stream, small));
  });
}

CONFORM_CASE(3, "submit: the operations of one group all arrive, also of zero counts in between") {
  TN_TRY(needs_kinds(t, {TN_COMM_ALL_REDUCE, TN_COMM_ALL_GATHER, TN_COMM_BROADCAST}));
  TN_TRY(needs_sums(t, {TN_DTYPE_i32, TN_DTYPE_f32}));
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  uint64_t most = t.quick() ? 24 : 100;
  if (limits.max_ops != 0) most = std::min<uint64_t>(most, limits.max_ops);
  std::vector<Exchange> trials;
  for (uint64_t i = 0; i < most; ++i) {
    static constexpr uint32_t kinds[] = {TN_COMM_ALL_REDUCE, TN_COMM_ALL_GATHER, TN_COMM_BROADCAST};
    trials.push_back({.kind = kinds[t.random().below(3)],
                      .dtype = t.random().chance(2) ? uint32_t{TN_DTYPE_i32} : uint32_t{TN_DTYPE_f32},
                      .reduce = TN_REDUCE_MAX,
                      .count = t.random().chance(4) ? 0 : t.random().below(700),
                      .root = static_cast<uint32_t>(t.random().below(3)),
                      .seed = t.random().next()});
  }
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    std::vector<Memory> kept;
    std::vector<tn_comm_op> group;
    for (const Exchange& trial : trials) {
      const Bytes bring = brought(trial, rank.rank, rank.size);
      const uint64_t room = trial.count * 4 * (trial.kind == TN_COMM_ALL_GATHER ? rank.size : 1);
      kept.push_back(TN_TRY(rank.device.alloc(bring.size())));
      kept.push_back(TN_TRY(rank.device.alloc(room)));
      if (!bring.empty()) TN_TRY(upload(rank.stream, kept[kept.size() - 2].span(), bring));
      tn_comm_op op = all_reduce(kept[kept.size() - 2].span(), kept.back().span(), trial.dtype, trial.count,
                                 trial.reduce);
      op.kind = trial.kind;
      op.peer = static_cast<int32_t>(trial.root);
      group.push_back(op);
    }
    TN_TRY(rank.comm.submit(rank.stream, group));
    Status said;
    for (size_t i = 0; i < trials.size() && said.ok(); ++i) {
      const Bytes found = TN_TRY(download(rank.stream, kept[2 * i + 1].span()));
      const std::string flaw = flaw_of(trials[i], expected(trials[i], rank.rank, rank.size), found);
      if (!flaw.empty())
        said = wrong_submit(words("operation ", i, " of a group, ", told(trials[i]), ": ", flaw));
    }
    return rank.agree(std::move(said));
  });
}

CONFORM_CASE(3, "submit: groups run in the order of their submits, also on different streams") {
  TN_TRY(needs_sums(t, {TN_DTYPE_i64}));
  const int steps = t.quick() ? 30 : 60;
  std::vector<uint64_t> choice;
  for (int i = 0; i < steps; ++i) choice.push_back(t.random().below(2));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    // Each step doubles what the last one left: any other order, or a step that overtakes, gives another number.
    const Memory memory = TN_TRY(rank.device.alloc(8));
    const Stream other = TN_TRY(rank.device.stream());
    TN_TRY(rank.stream.fill(memory.span(), 1, 8));
    TN_TRY(other.wait(rank.stream, TN_TRY(rank.stream.record())));
    for (const uint64_t which : choice) {
      const tn_comm_op op = all_reduce(memory.span(), memory.span(), TN_DTYPE_i64, 1);
      TN_TRY(rank.comm.submit(which == 0 ? rank.stream : other, {&op, 1}));
    }
    TN_TRY(rank.stream.finish());
    TN_TRY(other.finish());
    const auto got = element<int64_t>(TN_TRY(download(rank.stream, memory.span())), 0);
    const int64_t wanted = int64_t{1} << steps;
    return rank.agree(
        got == wanted ? Status() : wrong_submit(words(steps, " doublings of 1 on two streams gave ", got)));
  });
}

CONFORM_CASE(3, "submit: a collective waits for what its stream holds, and the stream waits for it") {
  TN_TRY(needs_gate(t));
  TN_TRY(needs_sums(t, {TN_DTYPE_i32}));
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    constexpr uint64_t count = 501;
    const Memory memory = TN_TRY(rank.device.alloc(4 * count))
    , copy = TN_TRY(rank.device.alloc(4 * count));
    TN_TRY(rank.stream.fill(memory.span(), 1000, 4));
    TN_TRY(rank.stream.fill(copy.span(), 7, 4));
    TN_TRY(rank.stream.finish());
    Gate gate = TN_TRY(Gate::make(t, rank.device));
    const Opener late(gate);  // where a submit blocks until its stream is free
    TN_TRY(gate.hold(rank.stream));
    TN_TRY(rank.stream.fill(memory.span(), rank.rank + 1, 4));
    const tn_comm_op op = all_reduce(memory.span(), memory.span(), TN_DTYPE_i32, count);
    TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
    TN_TRY(rank.stream.copy(copy.span(), memory.span()));
    const Bytes found = TN_TRY(download(rank.stream, copy.span()));
    Status said;
    for (uint64_t i = 0; i < count && said.ok(); ++i) {
      const auto got = element<int32_t>(found, i);
      if (got != 6)
        said = wrong_submit(words("1 + 2 + 3, written before the collective and copied after it, is ", got));
    }
    return rank.agree(std::move(said));
  });
}

CONFORM_CASE(3, "submit: it does not wait for the other ranks on the host") {
  TN_TRY(needs_sums(t, {TN_DTYPE_i32}));
  return as_threads(t, 2, [&](Rank& rank) -> Status {
    const Memory memory = TN_TRY(rank.device.alloc(64));
    const tn_comm_op op = all_reduce(memory.span(), memory.span(), TN_DTYPE_i32, 16);
    TN_TRY(rank.stream.fill(memory.span(), 1, 4));
    if (rank.rank == 0) {
      TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
      const Status early = rank.stream.sync(TN_TRY(rank.stream.record()), moment_ns);
      TN_TRY(rank.agree(early.code() == TN_TIMEOUT
                            ? Status()
                            : wrong_submit("a collective was over before the other rank had submitted it")));
    } else {
      TN_TRY(rank.meet());
      TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
    }
    const auto got = element<int32_t>(TN_TRY(download(rank.stream, memory.span())), 3);
    return rank.agree(got == 2 ? Status() : wrong_submit(words("1 + 1 is ", got)));
  });
}

CONFORM_CASE(3, "barrier: nobody passes before the last has come") {
  TN_TRY(needs_kinds(t, {TN_COMM_BARRIER}));
  TN_TRY(needs_gate(t));
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    for (uint32_t late = 0; late < rank.size; ++late) {
      std::optional<Gate> gate;
      if (rank.rank == late) {
        gate = TN_TRY(Gate::make(t, rank.device));
        TN_TRY(gate->hold(rank.stream));
      }
      const tn_comm_op op = barrier();
      TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
      const uint64_t passed = TN_TRY(rank.stream.record());
      const Status early = rank.stream.sync(passed, moment_ns);
      TN_TRY(rank.agree(early.code() == TN_TIMEOUT
                            ? Status()
                            : wrong_submit("a rank passed a barrier while another was held before it")));
      if (gate) gate->open();
      TN_TRY(rank.agree(rank.stream.sync(passed)));
    }
    return {};
  });
}

CONFORM_CASE(3, "barrier: it passes when all have come, again and again") {
  TN_TRY(needs_kinds(t, {TN_COMM_BARRIER}));
  const int rounds = t.quick() ? 100 : 1'000;
  return as_threads(t, 4, [&](Rank& rank) -> Status {
    for (int i = 0; i < rounds; ++i) {
      const tn_comm_op op = barrier();
      TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
    }
    TN_TRY(rank.stream.finish());
    t.check(true);
    return rank.meet();
  });
}

CONFORM_CASE(3,
             "message: those of one pair arrive in order, and a ring of them makes progress in one group") {
  TN_TRY(needs_kinds(t, {TN_COMM_SEND, TN_COMM_RECV}));
  const uint64_t seed = t.random().next();
  return as_threads(t, 5, [&](Rank& rank) -> Status {
    constexpr uint64_t messages = 12;
    const auto trial = [&](uint64_t k) {
      return Exchange{.kind = TN_COMM_SEND, .dtype = TN_DTYPE_i32, .count = k * k * 60, .seed = seed + k};
    };
    std::vector<Memory> kept;
    std::vector<tn_comm_op> group;
    for (uint64_t k = 0; k < messages; ++k) {
      const Bytes bring = brought(trial(k), rank.rank, rank.size);
      for (const uint32_t kind : {TN_COMM_SEND, TN_COMM_RECV}) {
        kept.push_back(TN_TRY(rank.device.alloc(bring.size())));
        tn_comm_op op{};
        op.kind = kind;
        op.dtype = TN_DTYPE_i32;
        op.count = trial(k).count;
        op.peer = static_cast<int32_t>((rank.rank + (kind == TN_COMM_SEND ? 1 : rank.size - 1)) % rank.size);
        (kind == TN_COMM_SEND ? op.send : op.recv) = kept.back().span();
        group.push_back(op);
      }
      if (!bring.empty()) TN_TRY(upload(rank.stream, kept[2 * k].span(), bring));
    }
    TN_TRY(rank.comm.submit(rank.stream, group));
    Status said;
    for (uint64_t k = 0; k < messages && said.ok(); ++k) {
      const Bytes found = TN_TRY(download(rank.stream, kept[2 * k + 1].span()));
      const std::string flaw = flaw_of(trial(k), expected(trial(k), rank.rank, rank.size), found);
      if (!flaw.empty()) said = wrong_submit(words("message ", k, " of a pair: ", flaw));
    }
    return rank.agree(std::move(said));
  });
}

CONFORM_CASE(3, "message: two ranks talk while a third is silent") {
  TN_TRY(needs_kinds(t, {TN_COMM_SEND, TN_COMM_RECV}));
  return as_threads(t, 3, [&](Rank& rank) -> Status {
    constexpr uint64_t count = 3'001;
    const Memory ball = TN_TRY(rank.device.alloc(4 * count));
    TN_TRY(rank.stream.fill(ball.span(), rank.rank == 0 ? 0xBA11 : 0, 4));
    for (uint32_t i = 0; i < 10 && rank.rank < 2; ++i) {
      tn_comm_op op{};
      op.kind = i % 2 == rank.rank ? TN_COMM_SEND : TN_COMM_RECV;
      op.dtype = TN_DTYPE_u8;
      op.count = 4 * count;
      op.peer = static_cast<int32_t>(1 - rank.rank);
      (op.kind == TN_COMM_SEND ? op.send : op.recv) = ball.span();
      TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
    }
    const auto got = element<uint32_t>(TN_TRY(download(rank.stream, ball.span())), count - 1);
    const uint32_t wanted = rank.rank < 2 ? 0xBA11 : 0;
    TN_TRY(
        rank.agree(got == wanted ? Status() : wrong_submit(words("rank ", rank.rank, " holds ", hex(got)))));
    const Exchange small{.count = 3, .seed = 1};
    return rank.agree(perform(rank, rank.comm, rank.stream, small));
  });
}

namespace {

// What a sum leaves, brought in one piece or in several, after `late` has slept.
Result<Bytes> summed(const Rank& rank, uint32_t dtype, const Bytes& bring, uint64_t piece, uint32_t late) {
  const uint64_t width = element_bytes(dtype), count = bring.size() / width;
  const Memory memory = TN_TRY(rank.device.alloc(bring.size()));
  TN_TRY(upload(rank.stream, memory.span(), bring));
  if (rank.rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  for (uint64_t at = 0; at < count; at += piece) {
    const uint64_t n = std::min(piece, count - at);
    const tn_span part = memory.span(at * width, n * width);
    const tn_comm_op op = all_reduce(part, part, dtype, n);
    TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
  }
  return download(rank.stream, memory.span());
}

Status same_sums(Context& t, uint32_t dtype) {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  if ((limits.reducible_mask >> dtype & 1) == 0) return {};
  const Exchange trial{.dtype = dtype, .count = t.quick() ? 9'001u : 60'001u, .seed = t.random().next()};
  const std::vector<uint64_t> pieces{trial.count, trial.count, 1'777, 4'096, trial.count};
  std::vector<Bytes> first(1);
  const auto body = [&](Rank& rank) -> Status {
    const Bytes bring = brought(trial, rank.rank, rank.size);
    for (size_t run = 0; run < pieces.size(); ++run) {
      const auto late = static_cast<uint32_t>(run % rank.size);
      const Bytes found = TN_TRY(summed(rank, dtype, bring, pieces[run], late));
      if (rank.rank == 0 && run == 0) first[0] = found;
      TN_TRY(rank.meet());
      const bool same = found == first[0];
      TN_TRY(rank.agree(
          same ? Status()
               : wrong_submit(words("a sum of ", trial.count, " in pieces of ", pieces[run], ", with rank ",
                                    late, " late, has other bits than in one piece on rank 0"))));
    }
    return {};
  };
  t.check(true);
  return as_threads(t, 3, body, {.flags = TN_COMM_DETERMINISTIC});
}

}  // namespace

CONFORM_CASE(3,
             "deterministic: a sum has the same bits on every rank, however it is cut and whoever is late") {
  TN_TRY(needs_communicators(t));
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64})
    TN_TRY(same_sums(t, dtype));
  return {};
}

}  // namespace tenon::conform
