// SPDX-License-Identifier: Apache-2.0
// standstill_test.cpp: ranks as processes that wait for one that is stopped, slow, or waits for them in turn.
//
// Invariant: who waits for a stopped rank is told in time, whatever the others do meanwhile; who waits for a slow one is not.
#include "processes.hpp"
#include "support/temp_folder.hpp"

#include <signal.h>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One message, and its end. [a rank's thread]
Status send_one(Rank& r, uint32_t to, int32_t value) {
  std::vector<std::byte> bytes(4);
  put(bytes.data(), value);
  const Buffer data = TN_TRY(r.uploaded(bytes));
  TN_TRY(r.comm.submit(r.stream, {CommOp::send(data, i32, to)}));
  return r.stream.sync();
}
Result<int32_t> receive_one(Rank& r, uint32_t from) {
  const Buffer data = TN_TRY(r.buffer(4));
  TN_TRY(r.comm.submit(r.stream, {CommOp::recv(data, i32, from)}));
  int32_t value = 0;
  TN_TRY(r.stream.download(std::span(&value, 1), data));
  TN_TRY(r.stream.sync());
  return value;
}

// Rank `r` and `other` send each other a number for so long; what ended them. The lower one says when it is enough.
Status converse(Rank& r, uint32_t other, double seconds) {
  const auto start = Clock::now();
  for (int32_t more = 1; more != 0;) {
    if (r.rank < other) {
      more = seconds_since(start) < seconds ? 1 : 0;
      TN_TRY(send_one(r, other, more));
      TN_TRY(receive_one(r, other));
    } else {
      more = TN_TRY(receive_one(r, other));
      TN_TRY(send_one(r, other, more));
    }
  }
  return {};
}

// `outcome` is `code`, in words that hold all `parts`.
Status expect(const Status& outcome, int32_t code, std::initializer_list<const char*> parts) {
  bool right = outcome.code() == code;
  for (const char* part : parts) right = right && outcome.message().find(part) != std::string_view::npos;
  return right ? Status() : Status(TN_INTERNAL, "got: " + std::string(outcome.message()));
}

}  // namespace

TEST_CASE("standstill: a stopped rank is TN_TIMEOUT in time, though others go on talking") {
  const tenon::test::TempFolder folder;
  const auto timeout = std::chrono::seconds(2);
  const auto children = start(4, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, 4, {.timeout = timeout}));
    TN_TRY(r.comm.barrier(r.stream));
    TN_TRY(r.stream.sync());
    if (rank == 1) raise(SIGSTOP);
    const auto begin = Clock::now();
    Status told;
    if (rank == 0)
      told = receive_one(r, 1).failure();
    else if (rank >= 2)
      told = converse(r, 5 - rank, 60);
    const double seconds = seconds_since(begin);
    std::printf("rank %u was told of the stopped rank after %.3f s of 2\n", rank, seconds);
    if (seconds > 12) return Status(TN_INTERNAL, "told too late");  // of a busy machine
    return expect(told, TN_TIMEOUT, {"rank 1 ("});
  });
  for (const uint32_t rank : {0u, 2u, 3u}) CHECK(ended(children[rank]) == 0);
  kill(children[1], SIGKILL);
  CHECK(ended(children[1]) == -SIGKILL);
}

TEST_CASE("standstill: a slow rank is waited for, also by those who wait for another that waits for it") {
  const tenon::test::TempFolder folder;
  const auto children = start(4, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, 4, {.timeout = std::chrono::seconds(2)}));
    TN_TRY(r.comm.barrier(r.stream));
    TN_TRY(r.stream.sync());
    if (rank >= 2) TN_TRY(converse(r, 5 - rank, 5));
    if (rank == 2) return send_one(r, 1, 7);
    if (rank == 1) return send_one(r, 0, TN_TRY(receive_one(r, 2)));
    if (rank == 0 && TN_TRY(receive_one(r, 1)) != 7) return Status(TN_INTERNAL, "another number came");
    return {};
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("standstill: a collective against a message is TN_MISMATCH on all ranks, naming both sides") {
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, 3, {.timeout = std::chrono::seconds(20)}));
    TN_TRY(checked_sum(r, 10));
    const auto begin = Clock::now();
    const Status told = rank == 1 ? receive_one(r, 0).failure() : checked_sum(r, 300'000);
    const double seconds = seconds_since(begin);
    std::printf("a message against a collective told in %.3f s\n", seconds);
    if (seconds > 2) return Status(TN_INTERNAL, "told too late: " + std::string(told.message()));
    return expect(told, TN_MISMATCH, {"rank 1 (", "(recv)", "(all_reduce)", "each waits for the other"});
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("standstill: two ranks that both send, or both receive, are TN_MISMATCH, naming both sides") {
  for (const bool sends : {true, false}) {
    CAPTURE(sends);
    const tenon::test::TempFolder folder;
    const auto children = start(2, [&](uint32_t rank) -> Status {
      const Store store = TN_TRY(Store::in_folder(folder.path()));
      Rank r = TN_TRY(join_here(store, rank, 2, {.timeout = std::chrono::seconds(20)}));
      const Status told = sends ? send_one(r, 1 - rank, 1) : receive_one(r, 1 - rank).failure();
      return expect(told, TN_MISMATCH, {"rank 0 (", "rank 1 (", sends ? "(send)" : "(recv)"});
    });
    for (const pid_t child : children) CHECK(ended(child) == 0);
  }
}

TEST_CASE("standstill: two groups of two on two processors go on beside each other") {
  const tenon::test::TempFolder folder;
  const auto children = start(4, [&](uint32_t rank) -> Status {
    keep_to_processors(2);
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, 4, {.timeout = std::chrono::seconds(20)}));
    Communicator pair = TN_TRY(r.comm.split(static_cast<int32_t>(rank / 2), 0));
    TN_TRY(checked_sum(r, 10));
    constexpr int rounds = 2'000;
    const auto begin = Clock::now();
    for (int i = 0; i < rounds; ++i) TN_TRY(pair.barrier(r.stream));
    TN_TRY(r.stream.sync());
    std::printf("a barrier of two, of four on two processors, takes %.1f us\n",
                seconds_since(begin) * 1e6 / rounds);
    return {};
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}
