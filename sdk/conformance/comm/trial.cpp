// SPDX-License-Identifier: Apache-2.0
// trial.cpp: buffers with borders, one submit, and the comparison.
#include "conformance/comm/trial.hpp"

#include "conformance/guard.hpp"
#include "conformance/ops/number.hpp"

#include <tenon/author/names.hpp>

#include <algorithm>

namespace tenon::conform {

namespace {

// Where a rank's sides lie: each in a buffer of its own, or both in one.
struct Sides {
  Guarded one{}, two{};
  bool in_place = false;
  uint64_t send_at = 0, send_bytes = 0;
  uint64_t recv_at = 0, recv_bytes = 0;

  tn_span send() const { return one.span(send_at, send_bytes); }
  tn_span recv() const { return in_place ? one.span(recv_at, recv_bytes) : two.span(recv_at, recv_bytes); }
};

uint64_t wanted_bytes(const Exchange& trial, const Expected& wanted) {
  return wanted.bytes.size() + wanted.values.size() * element_bytes(trial.dtype);
}

Result<Sides> make_sides(const Rank& rank, const Stream& stream, const Exchange& trial, const Bytes& bring,
                         const Expected& wanted) {
  const uint64_t width = element_bytes(trial.dtype), block = trial.count * width;
  Sides out;
  out.in_place = trial.in_place && trial.kind != TN_COMM_SEND;
  out.send_bytes = bring.size();
  out.recv_bytes = wanted_bytes(trial, wanted);
  if (out.in_place && trial.kind == TN_COMM_ALL_GATHER) out.send_at = rank.rank * block;
  if (out.in_place && trial.kind == TN_COMM_REDUCE_SCATTER) out.recv_at = rank.rank * block;
  const uint64_t send_end = out.send_at + out.send_bytes, recv_end = out.recv_at + out.recv_bytes;
  const uint64_t first = out.in_place ? std::max(send_end, recv_end) : send_end;
  const uint64_t skew = Guarded::skew_to(width) + trial.skew * width;
  out.one = TN_TRY(Guarded::make(rank.device, stream, first, skew));
  if (!out.in_place) out.two = TN_TRY(Guarded::make(rank.device, stream, recv_end, skew));
  if (!bring.empty()) TN_TRY(upload(stream, out.send(), bring));
  return out;
}

tn_comm_op operation(const Rank& rank, const Exchange& trial, const Sides& sides) {
  tn_comm_op op{};
  op.kind = trial.kind;
  op.dtype = trial.dtype;
  op.count = trial.count;
  op.send = sides.send();
  op.recv = sides.recv();
  if (reduces(trial.kind)) op.reduce = trial.reduce;
  if (has_root(trial.kind)) op.peer = static_cast<int32_t>(trial.root);
  // Only the root has something to send, or to get; another's buffer is there all the same.
  if (trial.kind == TN_COMM_BROADCAST && rank.rank != trial.root) op.send = op.recv;
  return op;
}

// What lies at the rank's factor: one number of the trial's type.
Result<Guarded> make_factor(const Rank& rank, const Stream& stream, const Exchange& trial) {
  const uint64_t width = element_bytes(trial.dtype);
  const double value = factor_of(trial, rank.rank);
  Bytes image(width);
  encode(trial.dtype, {value, static_cast<uint64_t>(static_cast<int64_t>(value))}, image.data());
  Guarded out = TN_TRY(Guarded::make(rank.device, stream, width, Guarded::skew_to(width)));
  TN_TRY(upload(stream, out.span(), image));
  return out;
}

Status compare(const Rank& rank, const Stream& stream, const Exchange& trial, const Sides& sides,
               const Bytes& bring, const Expected& wanted) {
  const Bytes first = TN_TRY(sides.one.read(rank.t, stream, words(told(trial), ", what is sent")));
  Bytes second;
  if (!sides.in_place)
    second = TN_TRY(sides.two.read(rank.t, stream, words(told(trial), ", what is received")));
  const std::span<const std::byte> found(sides.in_place ? first : second);
  const std::string flaw = flaw_of(trial, wanted, found.subspan(sides.recv_at, sides.recv_bytes));
  if (!flaw.empty()) return Status(TN_INTERNAL, words(told(trial), ": ", flaw));
  if (sides.in_place || first == bring) return {};
  return Status(TN_INTERNAL, words(told(trial), ": what was sent has changed, and it was not in place"));
}

std::vector<uint64_t> counts(const Exchange& trial, uint32_t rank, uint32_t size, bool out) {
  std::vector<uint64_t> list;
  for (uint32_t q = 0; q < size; ++q) list.push_back(out ? given(trial, rank, q) : given(trial, q, rank));
  return list;
}

// Each rank sends to the next and receives from the one before, in one group.
std::vector<tn_comm_op> ring(const Rank& rank, const tn_comm_op& op) {
  tn_comm_op send = op, recv = op;
  send.recv = {};
  send.peer = static_cast<int32_t>((rank.rank + 1) % rank.size);
  recv.kind = TN_COMM_RECV;
  recv.send = {};
  recv.peer = static_cast<int32_t>((rank.rank + rank.size - 1) % rank.size);
  return {send, recv};
}

}  // namespace

const char* kind_name(uint32_t kind) noexcept {
  static constexpr const char* names[] = {"?",          "all_reduce",     "broadcast",  "reduce",
                                          "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v",
                                          "send_recv",  "recv",           "barrier"};
  return kind < std::size(names) ? names[kind] : names[0];
}

const char* reduce_name(uint32_t reduce) noexcept {
  static constexpr const char* names[] = {"?", "sum", "prod", "min", "max", "avg", "premul_sum"};
  return reduce < std::size(names) ? names[reduce] : names[0];
}

bool reduces(uint32_t kind) noexcept {
  return kind == TN_COMM_ALL_REDUCE || kind == TN_COMM_REDUCE || kind == TN_COMM_REDUCE_SCATTER;
}

bool has_root(uint32_t kind) noexcept { return kind == TN_COMM_BROADCAST || kind == TN_COMM_REDUCE; }

bool has_meaning(uint32_t dtype, uint32_t reduce) noexcept {
  return dtype != TN_DTYPE_bool || (reduce != TN_REDUCE_AVG && reduce != TN_REDUCE_PREMUL_SUM);
}

tn_comm_op all_reduce(const tn_span& send, const tn_span& recv, uint32_t dtype, uint64_t count,
                      uint32_t reduce) noexcept {
  tn_comm_op op{};
  op.kind = TN_COMM_ALL_REDUCE;
  op.dtype = dtype;
  op.reduce = reduce;
  op.count = count;
  op.send = send;
  op.recv = recv;
  return op;
}

tn_comm_op barrier() noexcept {
  tn_comm_op op{};
  op.kind = TN_COMM_BARRIER;
  return op;
}

std::string told(const Exchange& trial) {
  std::string out = kind_name(trial.kind);
  if (reduces(trial.kind)) out += words(" ", reduce_name(trial.reduce));
  out += words(" of ", trial.count, " ", author::dtype_name(trial.dtype));
  if (has_root(trial.kind)) out += words(", root ", trial.root);
  if (trial.in_place) out += ", in place";
  if (trial.device_factor) out += ", factor on the device";
  if (trial.skew != 0) out += words(", ", trial.skew, " elements off alignment");
  return out;
}

Status perform(const Rank& rank, const Communicator& comm, const Stream& stream, const Exchange& trial) {
  const Bytes bring = trial.kind == TN_COMM_BROADCAST && rank.rank != trial.root
                          ? Bytes()
                          : brought(trial, rank.rank, rank.size);
  const Expected wanted = expected(trial, rank.rank, rank.size);
  const Sides sides = TN_TRY(make_sides(rank, stream, trial, bring, wanted));
  tn_comm_op op = operation(rank, trial, sides);
  const auto out = counts(trial, rank.rank, rank.size, true), in = counts(trial, rank.rank, rank.size, false);
  if (trial.kind == TN_COMM_ALL_TO_ALL_V) {
    op.send_counts = out.data();
    op.recv_counts = in.data();
  }
  Guarded factor;
  if (trial.device_factor) {
    factor = TN_TRY(make_factor(rank, stream, trial));
    op.factor = factor.span();
  } else if (trial.reduce == TN_REDUCE_PREMUL_SUM) {
    op.scalar = factor_of(trial, rank.rank);
  }
  const Status sent =
      trial.kind == TN_COMM_SEND ? comm.submit(stream, ring(rank, op)) : comm.submit(stream, {&op, 1});
  if (!sent.ok()) return Status(sent.code(), words(told(trial), ": ", sent.message()));
  const Status done = stream.finish();
  if (!done.ok()) return Status(done.code(), words(told(trial), ": ", done.message()));
  return compare(rank, stream, trial, sides, bring, wanted);
}

}  // namespace tenon::conform
