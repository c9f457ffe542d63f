// SPDX-License-Identifier: Apache-2.0
// ranks.hpp: ranks as threads of this process, and one collective run and compared with its reference.
//
// A rank's body returns a Status, because an assertion that throws must not leave a thread.
// Invariant: every rank's outcome is there when `as_threads` returns; none is left running.
#pragma once

#include "elements.hpp"
#include "support/runtime_options.hpp"

#include <tenon/tenon.hpp>

#include <functional>
#include <string>
#include <thread>
#include <type_traits>

namespace comm_test {

inline Result<Runtime> runtime(std::map<std::string, std::string> options = {}) {
  options.emplace("cpu.threads", "1");
  return Runtime::open(test::built_plugins(std::move(options)));
}

// Words, or what makes them: a plan told for every element of a check that holds is most of a test.
template <typename What>
std::string told(const What& what) {
  if constexpr (std::is_invocable_v<const What&>)
    return what();
  else
    return what;
}

// What one rank has.
struct Rank {
  uint32_t rank = 0, size = 1;
  Device device;
  Stream stream;
  Store store;
  Communicator comm;

  Result<Buffer> buffer(uint64_t bytes) { return device.allocate(stream, bytes); }
  Result<Buffer> uploaded(const std::vector<std::byte>& data) {
    auto out = TN_TRY(buffer(data.size()));
    if (!data.empty()) TN_TRY(stream.upload(out, data));
    return out;
  }
  // The stream's bytes at `span` are `expected`; `what` names them when not.
  template <typename What>
  Status expect(const tn_span& span, const std::vector<std::byte>& expected, const What& what) {
    std::vector<std::byte> found(expected.size());
    if (!found.empty()) TN_TRY(stream.download(found, span));
    TN_TRY(stream.sync());
    const auto wrong = std::mismatch(found.begin(), found.end(), expected.begin());
    if (wrong.first == found.end()) return {};
    return Status(TN_INTERNAL, told(what) + ": rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                   " has another byte at " + std::to_string(wrong.first - found.begin()) +
                                   " of " + std::to_string(found.size()));
  }
};

inline Result<Rank> join(Device device, const Store& store, uint32_t rank, uint32_t size,
                         CommOptions options = {}) {
  Rank out{.rank = rank, .size = size, .device = device, .stream = {}, .store = store, .comm = {}};
  out.stream = TN_TRY(device.stream({.name = "rank " + std::to_string(rank)}));
  out.comm = TN_TRY(Communicator::create(device, store, rank, size, std::move(options)));
  return out;
}

// Runs body(rank) in a thread for each, and returns what they returned.
inline std::vector<Status> as_threads(uint32_t size, const std::function<Status(uint32_t)>& body) {
  std::vector<Status> outcomes(size);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < size; ++r) threads.emplace_back([&, r] { outcomes[r] = body(r); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// One collective of the kinds that move data, drawn or chosen.
struct Task {
  uint32_t kind = TN_COMM_ALL_REDUCE;
  DType dtype = f32;
  Reduction how = Reduction::sum;
  uint64_t count = 0;
  uint32_t root = 0;
  bool in_place = false;
  uint64_t seed = 0;
};

inline std::string words(const Task& t) {
  static constexpr const char* kinds[] = {"?",          "all_reduce",     "broadcast", "reduce",
                                          "all_gather", "reduce_scatter", "all_to_all"};
  return std::string(kinds[t.kind]) + " of " + std::to_string(t.count) + " " + std::string(name(t.dtype)) +
         ", reduction " + std::to_string(static_cast<uint32_t>(t.how)) + ", root " + std::to_string(t.root) +
         (t.in_place ? ", in place" : "") + ", seed " + std::to_string(t.seed);
}

// The bytes of blocks 0 … size-1 that stand behind each other, block q from block_of(q).
template <class Block>
std::vector<std::byte> blocks(uint32_t size, Block block_of) {
  std::vector<std::byte> out;
  for (uint32_t q = 0; q < size; ++q) {
    const std::vector<std::byte> block = block_of(q);
    out.insert(out.end(), block.begin(), block.end());
  }
  return out;
}

// The operation on `send` and `recv` (each with room for all blocks), with what this rank brings and must get.
struct Prepared {
  CommOp op;
  std::vector<std::byte> send, expected;
  uint64_t send_at = 0, recv_at = 0;  // in place: where in the one buffer
};

inline Prepared prepare(const Rank& r, const Task& t) {
  Prepared out;
  const uint64_t n = t.count, block = bytes(t.dtype, n);
  const bool scatters = t.kind == TN_COMM_REDUCE_SCATTER || t.kind == TN_COMM_ALL_TO_ALL;
  out.send = brought(t.dtype, t.seed, r.rank, scatters ? n * r.size : n);
  switch (t.kind) {
    case TN_COMM_ALL_REDUCE:
    case TN_COMM_REDUCE:
      out.expected = all_reduced(t.dtype, t.how, t.seed, r.size, n);
      if (t.kind == TN_COMM_REDUCE && r.rank != t.root) out.expected.clear();
      break;
    case TN_COMM_BROADCAST:
      out.expected = brought(t.dtype, t.seed, t.root, n);
      break;
    case TN_COMM_ALL_GATHER:
      out.send_at = r.rank * block;
      out.expected = blocks(r.size, [&](uint32_t q) { return brought(t.dtype, t.seed, q, n); });
      break;
    case TN_COMM_REDUCE_SCATTER:
      out.recv_at = r.rank * block;
      out.expected = all_reduced(t.dtype, t.how, t.seed, r.size, n, r.rank * n);
      break;
    default:
      out.expected = blocks(r.size, [&](uint32_t q) { return brought(t.dtype, t.seed, q, n, r.rank * n); });
  }
  return out;
}

inline CommOp op_of(const Rank& r, const Task& t, const tn_span& send, const tn_span& recv) {
  switch (t.kind) {
    case TN_COMM_ALL_REDUCE:
      return CommOp::all_reduce(send, recv, t.dtype, t.how, factor(r.rank));
    case TN_COMM_REDUCE:
      return CommOp::reduce(send, recv, t.dtype, t.root, t.how, factor(r.rank));
    case TN_COMM_BROADCAST:
      return CommOp::broadcast(send, recv, t.dtype, t.root);
    case TN_COMM_ALL_GATHER:
      return CommOp::all_gather(send, recv, t.dtype);
    case TN_COMM_REDUCE_SCATTER:
      return CommOp::reduce_scatter(send, recv, t.dtype, t.how, factor(r.rank));
    default:
      return CommOp::all_to_all(send, recv, t.dtype, r.size);
  }
}

// A task that was submitted, and what must come of it.
struct UnderWay {
  Task task;
  Prepared prepared;
  Buffer one, two;
  std::vector<std::byte> found;
};

// Submits the task, and the download of its result. [a rank's thread]
inline Result<UnderWay> begin(Rank& r, Communicator& comm, Stream& stream, const Task& t) {
  UnderWay out{.task = t, .prepared = prepare(r, t), .one = {}, .two = {}, .found = {}};
  const Prepared& p = out.prepared;
  const uint64_t block = bytes(t.dtype, t.count), room = block * r.size;
  out.one = TN_TRY(r.device.allocate(stream, room));
  if (!t.in_place) out.two = TN_TRY(r.device.allocate(stream, room));
  const auto part = [](const Buffer& buffer, uint64_t at, uint64_t bytes) {
    tn_span span = buffer.span();
    span.offset += at;
    span.bytes = bytes;
    return span;
  };
  const tn_span send = part(out.one, t.in_place ? p.send_at : 0, p.send.size());
  const uint64_t get = t.kind == TN_COMM_REDUCE ? block : p.expected.size();
  const tn_span recv = part(t.in_place ? out.one : out.two, t.in_place ? p.recv_at : 0, get);
  if (!p.send.empty()) TN_TRY(stream.upload(send, p.send));
  TN_TRY(comm.submit(stream, {op_of(r, t, send, recv)}));
  out.found.resize(p.expected.size());
  if (!out.found.empty()) TN_TRY(stream.download(out.found, recv));
  return out;
}

// Compares, once its stream is through. [a rank's thread]
inline Status check(const Rank& r, const UnderWay& done) {
  const std::vector<std::byte>& expected = done.prepared.expected;
  if (done.found == expected) return {};
  const auto wrong =
      std::mismatch(done.found.begin(), done.found.end(), expected.begin()).first - done.found.begin();
  return Status(TN_INTERNAL, words(done.task) + ": rank " + std::to_string(r.rank) + " of " +
                                 std::to_string(r.size) + " differs at byte " + std::to_string(wrong));
}

// Runs the task on `comm` and compares. [a rank's thread]
inline Status perform(Rank& r, Communicator& comm, Stream& stream, const Task& t) {
  const UnderWay task = TN_TRY(begin(r, comm, stream, t));
  TN_TRY(stream.sync());
  return check(r, task);
}

// One all-reduce and its end, whatever comes of it. [a rank's thread]
inline Status sum(Rank& r, uint64_t count, DType dtype = f32) {
  const Buffer data = TN_TRY(r.uploaded(brought(dtype, 1, r.rank, count)));
  TN_TRY(r.comm.all_reduce(r.stream, data, data, dtype));
  return r.stream.sync();
}

// Every dtype and reduction of all_reduce, of a few counts. [a rank's thread]
inline Status every_all_reduce(Rank& r) {
  for (const DType dtype : reducible) {
    for (const Reduction how : reductions) {
      if (!has_meaning(dtype, how)) continue;
      for (const uint64_t count : {0u, 1u, 131u, 9'001u})
        TN_TRY(
            perform(r, r.comm, r.stream,
                    {.kind = TN_COMM_ALL_REDUCE, .dtype = dtype, .how = how, .count = count, .seed = count}));
    }
  }
  return {};
}

// The next of an endless row of tasks; the same for all ranks that draw from equal generators.
template <class Generator>
Task draw(Generator& random, uint32_t size, uint64_t largest) {
  Task t;
  t.kind = static_cast<uint32_t>(TN_COMM_ALL_REDUCE + random() % 6);
  t.dtype = reducible[random() % std::size(reducible)];
  do t.how = reductions[random() % std::size(reductions)];
  while (!has_meaning(t.dtype, t.how));
  const uint64_t limits[] = {4, 70, 2'000, largest};
  t.count = random() % (limits[random() % 4] + 1);
  t.root = static_cast<uint32_t>(random() % size);
  t.in_place = random() % 2 == 0;
  t.seed = random() % 1'000'000;
  return t;
}

// `sum`s a number over all ranks again and again, on two streams in turn, which only the order of groups keeps apart.
inline Status sums_on_two_streams(Rank& r, const std::function<Status(Stream&, const tn_span&)>& sum) {
  constexpr int rounds = 12;
  Stream other = TN_TRY(r.device.stream());
  const Buffer buffer = TN_TRY(r.buffer(8));
  TN_TRY(r.stream.upload(buffer, std::vector<double>{1}));
  TN_TRY(other.wait(TN_TRY(r.stream.record())));
  double expected = 1;
  for (int i = 0; i < rounds; ++i, expected *= r.size) TN_TRY(sum(i % 2 == 0 ? r.stream : other, buffer));
  TN_TRY(r.stream.sync());
  TN_TRY(other.sync());
  std::vector<double> found(1);
  TN_TRY(r.stream.download(found, buffer.span()));
  TN_TRY(r.stream.sync());
  return found[0] == expected
             ? Status()
             : Status(TN_INTERNAL, std::to_string(found[0]) + " is not " + std::to_string(expected));
}

}  // namespace comm_test
