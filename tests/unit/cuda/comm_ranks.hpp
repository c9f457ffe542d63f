// SPDX-License-Identifier: Apache-2.0
// comm_ranks.hpp: ranks of a communicator of the CUDA plugin as threads of one test, each with its stream and its memory.
//
// Invariant: a rank's thread asserts nothing; what its calls said is looked at when all threads have ended.
#pragma once

#include "world.hpp"

#include <tenon/comm.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace cuda_test {

constexpr uint64_t ms = 1'000'000;
using Id = std::vector<unsigned char>;

// A store of this process.
struct LocalStore {
  std::mutex mutex{};
  std::map<std::string, std::string> values{};
  tn_store table{};
  LocalStore() {
    table.header = {sizeof table, TN_ABI_MAJOR, TN_ABI_MINOR};
    table.context = this;
    table.set = [](void* context, const char* key, const void* data, uint64_t bytes, tn_error*) {
      auto& self = *static_cast<LocalStore*>(context);
      const std::lock_guard lock(self.mutex);
      const bool fresh =
          self.values.try_emplace(key, std::string(static_cast<const char*>(data), bytes)).second;
      return int32_t{fresh ? TN_OK : TN_INVALID};
    };
    table.get = [](void* context, const char* key, void* data, uint64_t capacity, uint64_t* bytes, uint64_t,
                   tn_error*) {
      auto& self = *static_cast<LocalStore*>(context);
      const std::lock_guard lock(self.mutex);
      const auto found = self.values.find(key);
      if (found == self.values.end()) return int32_t{TN_TIMEOUT};
      *bytes = found->second.size();
      std::memcpy(data, found->second.data(), std::min<uint64_t>(capacity, *bytes));
      return int32_t{TN_OK};
    };
  }
};

inline Id make_id(tn_device* device) {
  uint64_t bytes = 0;
  must([&](tn_error* e) { return plugin().comm->id_bytes(device, &bytes, e); });
  Id out(bytes);
  must([&](tn_error* e) { return plugin().comm->make_id(device, out.data(), out.size(), e); });
  return out;
}

inline Outcome try_join(tn_device* device, uint32_t rank, uint32_t size, const Id& id, tn_comm** comm,
                        uint64_t timeout_ns = 20'000 * ms, const tn_store* store = nullptr,
                        uint32_t flags = 0) {
  tn_comm_options options{};
  options.size = sizeof options;
  options.flags = flags;
  options.timeout_ns = timeout_ns;
  options.name = "test";
  options.store = store;
  return outcome_of([&](tn_error* e) {
    return plugin().comm->create(device, rank, size, id.data(), id.size(), &options, comm, e);
  });
}

// 64 words of 32 bits to send and as many to receive.
struct Rank {
  static constexpr uint64_t words = 64, side = 4 * words;
  uint32_t rank = 0, size = 1;
  tn_device* device = nullptr;
  tn_comm* comm = nullptr;
  Outcome joined{};
  Stream stream{}, other{};
  Memory memory{};

  tn_span send() const { return span(memory, 0, side); }
  tn_span recv() const { return span(memory, side, side); }
  tn_comm_op op(uint32_t kind, uint64_t count, uint32_t dtype = TN_DTYPE_i32) const {
    tn_comm_op out{};
    out.kind = kind;
    out.dtype = dtype;
    out.count = count;
    out.reduce = TN_REDUCE_SUM;
    out.send = send();
    out.recv = recv();
    return out;
  }
  tn_comm_op message(uint32_t kind, uint32_t peer, uint64_t at) const {
    tn_comm_op out = op(kind, 1);
    out.peer = static_cast<int32_t>(peer);
    (kind == TN_COMM_SEND ? out.send : out.recv) =
        span(memory, (kind == TN_COMM_SEND ? 0 : side) + 4 * at, 4);
    (kind == TN_COMM_SEND ? out.recv : out.send) = {};
    return out;
  }
  Outcome submit(std::vector<tn_comm_op> ops, tn_stream* on = nullptr) const {
    return outcome_of([&](tn_error* e) {
      return plugin().comm->submit(comm, on != nullptr ? on : stream, ops.data(),
                                   static_cast<uint32_t>(ops.size()), e);
    });
  }
  // What the stream says once all that was enqueued has ended.
  Outcome finish(tn_stream* on = nullptr, uint64_t timeout_ns = 20'000 * ms) const {
    tn_stream* const line = on != nullptr ? on : stream;
    uint64_t value = 0;
    const Outcome recorded = try_record(line, value);
    return recorded.ok() ? try_sync(line, value, timeout_ns) : recorded;
  }
  Outcome run(std::vector<tn_comm_op> ops) const {
    const Outcome said = submit(std::move(ops));
    return said.ok() ? finish() : said;
  }
  Outcome health() const {
    return outcome_of([&](tn_error* e) { return plugin().comm->health(comm, e); });
  }
  Outcome abort() const {
    return outcome_of([&](tn_error* e) { return plugin().comm->abort(comm, e); });
  }
  Outcome leave(uint64_t timeout_ns = 20'000 * ms) {
    return outcome_of(
        [&](tn_error* e) { return plugin().comm->destroy(std::exchange(comm, nullptr), timeout_ns, e); });
  }
  std::vector<int32_t> found(const tn_span& from) const {
    std::vector<int32_t> out(from.bytes / 4);
    if (!try_copy(stream, host_span(out.data(), from.bytes), from).ok() || !finish().ok()) return {};
    return out;
  }
};

// Each word of what rank r sends is 10·r + its number, of what it receives -1.
inline void prepare(Rank& rank) {
  rank.stream = make_stream(rank.device);
  rank.other = make_stream(rank.device);
  rank.memory = allocate(rank.device, 2 * Rank::side);
  std::vector<int32_t> sent(Rank::words);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int32_t>(10 * rank.rank + i);
  copy(rank.stream, rank.send(), host_span(sent.data(), Rank::side));
  fill(rank.stream, rank.recv(), 0xFFFFFFFFu, 4);
  drain(rank.stream);
}

// Runs `body` on threads that have joined one communicator, rank r on the r-th device of the list, which is gone through in
// turn. Once all have ended, `after` may look at them.
inline void together(const std::vector<tn_device*>& devices, uint32_t size,
                     const std::function<void(Rank&)>& body, const std::function<void(Rank&)>& after = {},
                     uint64_t timeout_ns = 20'000 * ms, const tn_store* store = nullptr) {
  const Id id = make_id(devices[0]);
  std::vector<Rank> ranks(size);
  for (uint32_t r = 0; r < size; ++r) {
    ranks[r].rank = r;
    ranks[r].size = size;
    ranks[r].device = devices[r % devices.size()];
    prepare(ranks[r]);
  }
  std::vector<std::thread> threads;
  for (Rank& rank : ranks) {
    threads.emplace_back([&] {
      rank.joined = try_join(rank.device, rank.rank, size, id, &rank.comm, timeout_ns, store);
      if (rank.joined.ok()) body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Rank& rank : ranks) {
    CAPTURE(rank.rank);
    CHECK(rank.joined.message() == "");
    if (after && rank.joined.ok()) after(rank);
    if (rank.comm != nullptr) rank.leave();
  }
}

}  // namespace cuda_test
