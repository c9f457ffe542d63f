// SPDX-License-Identifier: Apache-2.0
// abort_relay_test.cpp: an abort reaches ranks that nothing but the store connects.
//
// Invariant: what a rank is told of another it was told by the core.
#include "apart.hpp"
#include "detection.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace comm_test;

namespace {

constexpr Timeout limit = std::chrono::seconds(20);

}  // namespace

TEST_CASE("abort relay: every rank that waits is told who aborted, where only the store connects them") {
  PairsOnly world(limit);
  std::atomic<uint32_t> in{0};
  Detection abort;
  const auto told = as_threads(4, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank, 4));
    TN_TRY(r.comm.barrier(r.stream));
    ++in;
    Status said;
    std::thread other([&] {
      while (in < 4) std::this_thread::yield();
      if (rank == 3) abort.begin(), said = r.comm.abort();
    });
    const Status end = r.stream.sync(limit);
    if (rank != 3) abort.told();
    other.join();
    if (!said.ok()) return Status(said.error());
    if (end.ok() || r.comm.health().code() != TN_ABORTED || r.comm.barrier(r.stream).code() != TN_ABORTED)
      return Status(TN_INTERNAL, "health and submit say nothing of it");
    return Status(end.error());
  });
  abort.print("abort");
  CHECK(abort.seconds() < 5);  // of 20, on a busy machine
  for (const Status& outcome : told) {
    CHECK_MESSAGE(outcome.code() == TN_ABORTED, outcome.message());
    CHECK_MESSAGE(outcome.message().find("rank 3 aborted") != std::string_view::npos, outcome.message());
  }
}

TEST_CASE("abort relay: a stream that goes on hides none that stands still") {
  PairsOnly world(limit);
  std::atomic<uint32_t> in{0};
  std::atomic<bool> over{false};
  Detection abort;
  const auto told = as_threads(2, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank, 4));
    Stream busy = TN_TRY(world.device.stream({.name = "busy"}));
    const Buffer data = TN_TRY(world.device.allocate(busy, 64));
    TN_TRY(r.comm.broadcast(busy, data, f32, 0));
    TN_TRY(r.comm.barrier(r.stream));
    if (rank == 1) {
      while (in < 10) std::this_thread::yield();
      abort.begin();
      TN_TRY(r.comm.abort());
      return r.stream.sync(limit);
    }
    Status went;
    const auto turn = [&]() -> Status {
      TN_TRY(busy.fill(data));
      return busy.sync(limit);
    };
    std::thread works([&] {
      while (went.ok() && !over) ++in, went = turn();
    });
    const Status end = r.stream.sync(limit);
    abort.told();
    over = true;
    works.join();
    if (!went.ok()) return Status(TN_INTERNAL, "the busy stream failed: " + std::string(went.message()));
    return Status(end.error());
  });
  abort.print("abort, beside a stream that goes on,");
  CHECK(abort.seconds() < 5);  // of 20, on a busy machine
  for (const Status& outcome : told) CHECK_MESSAGE(outcome.code() == TN_ABORTED, outcome.message());
}

TEST_CASE("abort relay: of two ranks that abort the first one is named by all") {
  PairsOnly world(limit);
  std::atomic<uint32_t> in{0};
  const auto told = as_threads(4, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank, 4));
    TN_TRY(r.comm.barrier(r.stream));
    ++in;
    while (in < 4) std::this_thread::yield();
    if (rank >= 2) TN_TRY(r.comm.abort());
    return r.stream.sync(limit);
  });
  const bool second = told[0].message().find("rank 2 aborted") != std::string_view::npos;
  for (const Status& outcome : told) {
    CHECK_MESSAGE(outcome.code() == TN_ABORTED, outcome.message());
    CHECK_MESSAGE(
        outcome.message().find(second ? "rank 2 aborted" : "rank 3 aborted") != std::string_view::npos,
        outcome.message());
  }
}

TEST_CASE("abort relay: a communicator that failed has its own cause, whoever aborts it then") {
  PairsOnly world(limit);
  std::atomic<uint32_t> in{0};
  const auto told = as_threads(2, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank, 4, {.timeout = std::chrono::milliseconds(rank == 0 ? 100 : 1'000)}));
    TN_TRY(r.comm.barrier(r.stream));
    ++in;
    while (in < 2) std::this_thread::yield();
    const Status end = r.stream.sync(limit);
    TN_TRY(r.comm.abort());
    return Status(end.error());
  });
  for (const Status& outcome : told) CHECK_MESSAGE(outcome.code() == TN_TIMEOUT, outcome.message());
}
