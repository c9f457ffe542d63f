// SPDX-License-Identifier: Apache-2.0
// comm_faults_test.cpp: what ends a communicator of ranks that are threads: aborts, what does not fit, who does not come, who leaves.
//
// Invariant: every rank is told the same, its stream is let go, and what was called off has touched nothing.
#include "comm_ranks.hpp"

#include <algorithm>
#include <atomic>

using namespace cuda_test;

namespace {

bool has_ended(const Outcome& said) {
  return said.code == TN_ABORTED || said.code == TN_PEER_LOST || said.code == TN_TIMEOUT;
}

}  // namespace

TEST_CASE("comm: an abort lets every stream go, and what was called off has written nothing") {
  CUDA_DRIVER("seed=3");
  const World world;
  const Device device = open_device();
  Outcome said[3];
  std::atomic<int> submitted{0};
  const auto body = [&](Rank& rank) {
    if (rank.rank == 2) {
      while (submitted < 2) std::this_thread::yield();
      said[2] = rank.abort();
      return;
    }
    (void)rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)});
    ++submitted;
    said[rank.rank] = rank.finish();
  };
  together({device}, 3, body, [&](Rank& rank) {
    CHECK(rank.health().code == TN_ABORTED);
    if (rank.rank == 2) return;
    CHECK(said[rank.rank].code == TN_ABORTED);
    CHECK(said[rank.rank].says("rank 2 aborted communicator 'test'"));
    CHECK((said[rank.rank].error.flags & TN_ERROR_ASYNC) != 0);
    const auto untouched = download(rank.other, rank.recv());
    CHECK(std::ranges::all_of(untouched, [](unsigned char byte) { return byte == 0xFF; }));
  });
  CHECK(said[2].message() == "");
}

TEST_CASE("comm: a value recorded before a group that failed is still told as reached") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Outcome before, after;
  const auto body = [&](Rank& rank) {
    if (rank.rank != 0) return;
    uint64_t early = 0;
    (void)try_fill(rank.stream, rank.recv(), 1, 4);
    (void)try_record(rank.stream, early);
    (void)rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)});
    (void)rank.abort();
    before = try_sync(rank.stream, early);
    after = rank.finish();
  };
  together({device}, 2, body);
  CHECK(before.message() == "");
  CHECK(after.code == TN_ABORTED);
}

TEST_CASE("comm: who does not come is named within the timeout, and so is one whose stream is held up") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Stream promises = make_stream(device);
  for (const bool submits : {false, true}) {
    Outcome said;
    uint64_t held = 0;
    std::atomic<bool> over{false};
    const auto body = [&](Rank& rank) {
      if (rank.rank == 0) {
        said = rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)});
        over = true;
        return;
      }
      if (!submits) return;
      held = promise(promises);
      wait(rank.stream, promises, held);
      (void)rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)});
      while (!over) std::this_thread::yield();
      (void)try_signal(promises, held);
      CHECK(rank.finish().code == TN_TIMEOUT);
    };
    together({device}, 2, body, {}, 300 * ms);
    CHECK(said.code == TN_TIMEOUT);
    CHECK(said.says("rank 1 did not come to all_reduce sum of 64 i32 of rank 0"));
  }
}

TEST_CASE("comm: what does not fit is TN_MISMATCH on all ranks, with both sides") {
  CUDA_DRIVER("seed=2");
  const World world;
  const Device device = open_device();
  Outcome said[3];
  const auto body = [&](Rank& rank) {
    said[rank.rank] = rank.run({rank.op(TN_COMM_ALL_REDUCE, rank.rank == 1 ? 7 : 9)});
  };
  together({device}, 3, body);
  for (const Outcome& each : said) {
    CHECK(each.code == TN_MISMATCH);
    CHECK(each.says("all_reduce sum of 7 i32"));
    CHECK(each.says("all_reduce sum of 9 i32"));
  }
}

TEST_CASE("comm: counts of all_to_all_v that do not agree are named") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Outcome said[2];
  const uint64_t counts[2][2] = {{1, 2}, {3, 1}}, wanted[2][2] = {{1, 3}, {4, 1}};
  const auto body = [&](Rank& rank) {
    tn_comm_op op = rank.op(TN_COMM_ALL_TO_ALL_V, 0);
    op.send_counts = counts[rank.rank];
    op.recv_counts = wanted[rank.rank];
    said[rank.rank] = rank.run({op});
  };
  together({device}, 2, body);
  for (const Outcome& each : said) {
    CHECK(each.code == TN_MISMATCH);
    CHECK(each.says("rank 0 sends 2 elements to rank 1, which expects 4"));
  }
}

TEST_CASE("comm: a rank that leaves is named to the one that brings something afterwards") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Outcome said;
  std::atomic<bool> gone{false};
  const auto body = [&](Rank& rank) {
    if (rank.rank == 1) {
      (void)rank.leave();
      gone = true;
      return;
    }
    while (!gone) std::this_thread::yield();
    said = rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)});
  };
  together({device}, 2, body);
  CHECK(said.code == TN_PEER_LOST);
  CHECK(said.says("rank 1 has left communicator 'test'"));
}

TEST_CASE("comm: who destroys it with groups on their way ends them for all") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Outcome left, mine, theirs;
  std::atomic<bool> gone{false};
  const auto body = [&](Rank& rank) {
    if (rank.rank == 0) {
      (void)rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)});
      left = rank.leave(20 * ms);
      mine = rank.finish();
      gone = true;
      return;
    }
    while (!gone) std::this_thread::yield();
    theirs = rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)});
  };
  together({device}, 2, body);
  CHECK(left.code == TN_ABORTED);
  CHECK(mine.code == TN_ABORTED);
  CHECK(has_ended(theirs));
}
