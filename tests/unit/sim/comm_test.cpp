// SPDX-License-Identifier: Apache-2.0
// comm_test.cpp: the simulated device's own communicators: which profiles have them, ids, what a lazy scheduler does to groups.
//
// Every rank is a thread of its own, as the contract asks; the conformance kit asks for the rest.
#include "world.hpp"

#include <tenon/comm.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

using namespace sim_test;

namespace {

constexpr uint64_t ms = 1'000'000;
using Id = std::vector<unsigned char>;

Id make_id(tn_device* device) {
  uint64_t bytes = 0;
  must([&](tn_error* e) { return plugin().comm->id_bytes(device, &bytes, e); });
  Id out(bytes);
  must([&](tn_error* e) { return plugin().comm->make_id(device, out.data(), out.size(), e); });
  return out;
}

// One rank: its stream, its memory, its communicator.
struct Rank {
  uint32_t rank = 0;
  tn_comm* comm = nullptr;
  Outcome joined{};
  Stream stream{};
  Memory memory{};

  Outcome sum(tn_stream* on) const {
    tn_comm_op op{};
    op.kind = TN_COMM_ALL_REDUCE;
    op.dtype = TN_DTYPE_i32;
    op.reduce = TN_REDUCE_SUM;
    op.count = 16;
    op.send = op.recv = span(memory, 0, 64);
    return outcome_of([&](tn_error* e) { return plugin().comm->submit(comm, on, &op, 1, e); });
  }
  Outcome health() const {
    return outcome_of([&](tn_error* e) { return plugin().comm->health(comm, e); });
  }
  Outcome leave(uint64_t timeout_ns = 1'000 * ms) {
    return outcome_of(
        [&](tn_error* e) { return plugin().comm->destroy(std::exchange(comm, nullptr), timeout_ns, e); });
  }
};

Outcome join(tn_device* device, Rank& rank, uint32_t size, const Id& id, uint64_t timeout_ns) {
  tn_comm_options options{};
  options.size = sizeof options;
  options.timeout_ns = timeout_ns;
  options.name = "test";
  return outcome_of([&](tn_error* e) {
    return plugin().comm->create(device, rank.rank, size, id.data(), id.size(), &options, &rank.comm, e);
  });
}

// Ranks on threads; assertions that throw stay outside of them.
void together(tn_device* device, uint32_t size, uint64_t timeout_ns, const std::function<void(Rank&)>& body) {
  const Id id = make_id(device);
  std::vector<Rank> ranks(size);
  for (uint32_t r = 0; r < size; ++r) {
    ranks[r].rank = r;
    ranks[r].stream = make_stream(device);
    ranks[r].memory = allocate(device, 64);
    fill(ranks[r].stream, span(ranks[r].memory, 0, 64), r + 1, 4);
  }
  std::vector<std::thread> threads;
  for (Rank& rank : ranks) {
    threads.emplace_back([&] {
      rank.joined = join(device, rank, size, id, timeout_ns);
      if (rank.joined.ok()) body(rank);
      if (rank.comm != nullptr) rank.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Rank& rank : ranks) CHECK_MESSAGE(rank.joined.ok(), rank.joined.error.message);
}

const Options ascend{{"profile", "ascend"}};

}  // namespace

TEST_CASE("comm: profile ascend has them, with ids of 4,108 bytes, and no other has") {
  for (const char* name : {"plain", "kunlun", "mlu", "ipu", "ze"}) {
    CAPTURE(name);
    const World world(Options{{"profile", name}});
    CHECK((plugin().comm == nullptr));
  }
  const World world(ascend);
  const Device device = open_device();
  CHECK(make_id(device).size() == 4'108);
}

TEST_CASE("comm: an id that did not come whole is refused, and its first wrong byte named") {
  const World world(ascend);
  const Device device = open_device();
  for (const size_t at : {size_t{40}, size_t{128}, size_t{4'107}}) {
    Id id = make_id(device);
    id[at] ^= 1;
    Rank rank;
    const Outcome said = join(device, rank, 1, id, 100 * ms);
    CHECK(said.code == TN_INVALID);
    CHECK_MESSAGE(said.says(("byte " + std::to_string(at) + " ").c_str()), said.error.message);
  }
  Rank rank;
  CHECK(join(device, rank, 1, Id(4'108, 0), 100 * ms).says("not made by a simulated device"));
}

TEST_CASE("comm: whoever is missing when ranks join is named") {
  const World world(ascend);
  const Device device = open_device();
  const Id id = make_id(device);
  Rank ranks[2]{{.rank = 0}, {.rank = 2}};
  Outcome said[2];
  std::thread other([&] { said[1] = join(device, ranks[1], 3, id, 300 * ms); });
  said[0] = join(device, ranks[0], 3, id, 300 * ms);
  other.join();
  // The first to give up ends it for the other.
  for (const Outcome& each : said) CHECK((each.code == TN_TIMEOUT || each.code == TN_PEER_LOST));
  CHECK((said[0].says("rank 1 did not join") || said[1].says("rank 1 did not join")));
}

TEST_CASE("comm: an id whose communicator has ended meets nobody") {
  const World world(ascend);
  const Device device = open_device();
  const Id id = make_id(device);
  Rank rank;
  CHECK(join(device, rank, 1, id, 100 * ms).ok());
  CHECK(rank.leave().ok());
  const Outcome said = join(device, rank, 1, id, 100 * ms);
  CHECK(said.code == TN_PEER_LOST);
  CHECK(said.says("make a new id"));
}

TEST_CASE("comm: destroy sees groups out that nobody has demanded yet") {
  const World world(ascend);
  const Device device = open_device();
  std::atomic<int> good{0};
  together(device, 3, 10'000 * ms, [&](Rank& rank) {
    for (int i = 0; i < 5; ++i) good += rank.sum(rank.stream).ok() ? 1 : 0;
    good += rank.leave().ok() ? 1 : 0;
    const auto found = download(rank.stream, span(rank.memory, 0, 64));
    int32_t first = 0;
    std::memcpy(&first, found.data(), sizeof first);
    good += first == 6 * 81 ? 1 : 0;  // 1 + 2 + 3, and four times three of the same
  });
  CHECK(good == 3 * 7);
}

TEST_CASE("comm: a stream abandoned with a group on it, begun or not, ends the communicator for all") {
  for (const bool begun : {false, true}) {
    CAPTURE(begun);
    const World world(begun ? Options{{"profile", "ascend"}, {"idle_ms", "0"}} : ascend);
    const Device device = open_device();
    std::atomic<bool> left{false};
    Outcome told[2];
    together(device, 2, 10'000 * ms, [&](Rank& rank) {
      if (rank.rank == 0) {
        (void)rank.sum(rank.stream);
        if (begun) (void)try_sync(rank.stream, record(rank.stream), 20 * ms);
        (void)plugin().stream->destroy(rank.stream.release(), TN_DESTROY_ABANDON, nullptr);
        left = true;
        // The thread that carries messages looks, and then it is told.
        while ((told[0] = rank.health()).ok()) std::this_thread::yield();
      } else {
        while (!left) std::this_thread::yield();
        told[1] = rank.sum(rank.stream);
        uint64_t value = 0;
        if (told[1].ok()) told[1] = try_record(rank.stream, value);
        if (told[1].ok()) told[1] = try_sync(rank.stream, value);
      }
    });
    for (const Outcome& each : told) {
      CHECK_MESSAGE(each.code == TN_ABORTED, each.error.message);
      CHECK_MESSAGE(each.says("rank 0 passed over a group"), each.error.message);
    }
  }
}

TEST_CASE("comm: messages that do not fit are a mismatch, with both sides named") {
  const World world(ascend);
  const Device device = open_device();
  Outcome told[2];
  together(device, 2, 10'000 * ms, [&](Rank& rank) {
    tn_comm_op op{};
    op.kind = rank.rank == 0 ? TN_COMM_SEND : TN_COMM_RECV;
    op.dtype = TN_DTYPE_u8;
    op.count = rank.rank == 0 ? 12 : 13;
    op.peer = static_cast<int32_t>(1 - rank.rank);
    (rank.rank == 0 ? op.send : op.recv) = span(rank.memory, 0, 64);
    told[rank.rank] =
        outcome_of([&](tn_error* e) { return plugin().comm->submit(rank.comm, rank.stream, &op, 1, e); });
    uint64_t value = 0;
    if (told[rank.rank].ok()) told[rank.rank] = try_record(rank.stream, value);
    if (told[rank.rank].ok()) told[rank.rank] = try_sync(rank.stream, value);
  });
  for (const Outcome& each : told) {
    CHECK(each.code == TN_MISMATCH);
    CHECK_MESSAGE(each.says("rank 0 brings send of 12 u8 and rank 1 brings recv of 13 u8"),
                  each.error.message);
  }
}

TEST_CASE("comm: quiesce with a communicator at rest stops no rank") {
  const World world(ascend);
  const Device device = open_device();
  std::atomic<int> good{0}, done{0};
  together(device, 2, 10'000 * ms, [&](Rank& rank) {
    for (int i = 1; i <= 3; ++i) {
      good += rank.sum(rank.stream).ok() && try_sync(rank.stream, record(rank.stream)).ok() ? 1 : 0;
      ++done;
      // Both are at rest, then one stops the threads.
      while (rank.rank == 0 && done < 3 * i - 1) std::this_thread::yield();
      if (rank.rank == 0) good += plugin().quiesce(&plugin(), nullptr) == TN_OK ? 1 : 0;
      if (rank.rank == 0) ++done;
      while (done < 3 * i) std::this_thread::yield();
    }
  });
  CHECK(good == 9);
}

TEST_CASE("comm: the n-th group that comes to a hub is the last of the rank that brings it") {
  const World world(Options{{"profile", "ascend"}, {"peer_lost_at", "3"}});
  const Device device = open_device();
  Outcome first[2], told[2];
  together(device, 2, 10'000 * ms, [&](Rank& rank) {
    first[rank.rank] = rank.sum(rank.stream);
    if (first[rank.rank].ok()) first[rank.rank] = try_sync(rank.stream, record(rank.stream));
    Outcome& said = told[rank.rank];
    said = rank.sum(rank.stream);
    uint64_t value = 0;
    if (said.ok()) said = try_record(rank.stream, value);
    if (said.ok()) said = try_sync(rank.stream, value);
  });
  for (const Outcome& each : first) CHECK_MESSAGE(each.ok(), each.error.message);
  int named = 0;
  for (const Outcome& each : told) {
    CHECK_MESSAGE(each.code == TN_PEER_LOST, each.error.message);
    named += each.says("on purpose (sim.peer_lost_at)") ? 1 : 0;
  }
  CHECK(named == 1);  // the one that is left; the other lost its hub
}
