// SPDX-License-Identifier: Apache-2.0
// nccl_test.cpp: what NCCL is told: who joins, the calls of each group, in which order, in captures, in splits.
//
// Invariant: results are for devices to show; here is only that the library is used as it is documented.
#include "nccl_ranks.hpp"

#include <algorithm>
#include <atomic>

using namespace cuda_test;
using Lines = std::vector<std::string>;

TEST_CASE("nccl: ranks meet in the store, join, and leave together" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  by_nccl({first, second}, [](Rank& rank) { CHECK(rank.health().message() == ""); });
  const std::string log = nccl_log();
  CHECK(log.starts_with("launch order 1\n"));
  for (const uint32_t rank : {0u, 1u}) CHECK(lines_of(log, rank)[0] == "joins 2");
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: threads of one process join by themselves, unless NCCL is asked for" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl({{"comm", "auto"}}));
  const Device first = open_device(), second = open_device(1);
  std::vector<int32_t> found;
  LocalStore store;
  const auto body = [&](Rank& rank) {
    CHECK(rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)}).message() == "");
    if (rank.rank == 0) found = rank.found(rank.recv());
  };
  together({first, second}, 2, body, {}, 20'000 * ms, &store.table);
  CHECK(lines_of(nccl_log(), 0).empty());
  REQUIRE(found.size() == 64);
  CHECK(found[3] == 3 + 13);
}

TEST_CASE("nccl: every kind of operation is one group of the library's calls" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  const uint64_t sent[2][2] = {{1, 2}, {0, 3}}, received[2][2] = {{1, 0}, {2, 3}};
  const auto body = [&](Rank& rank) {
    const uint32_t r = rank.rank;
    tn_comm_op uneven = rank.op(TN_COMM_ALL_TO_ALL_V, 0);
    uneven.send_counts = sent[r];
    uneven.recv_counts = received[r];
    tn_comm_op reduced = rank.op(TN_COMM_REDUCE, 5, TN_DTYPE_f16);
    reduced.reduce = TN_REDUCE_MIN;
    reduced.peer = 1;
    tn_comm_op any = rank.op(TN_COMM_ALL_REDUCE, 8, TN_DTYPE_bool);
    tn_comm_op told = rank.op(TN_COMM_BROADCAST, 7, TN_DTYPE_i16);
    for (const tn_comm_op& op :
         {rank.op(TN_COMM_ALL_REDUCE, 64), told, reduced, rank.op(TN_COMM_ALL_GATHER, 4),
          rank.op(TN_COMM_REDUCE_SCATTER, 4, TN_DTYPE_bf16), rank.op(TN_COMM_ALL_TO_ALL, 2), uneven, any,
          rank.op(TN_COMM_BARRIER, 0)})
      CHECK(rank.run({op}).message() == "");
  };
  by_nccl({first, second}, body);
  const Lines zero = lines_of(nccl_log(), 0);
  CHECK(zero == Lines{"joins 2",
                      "all_reduce 64 type 2 sum",
                      "group of 1",
                      "broadcast 14 bytes root 0",
                      "group of 1",
                      "reduce 5 type 6 min root 1",
                      "group of 1",
                      "all_gather 16 bytes",
                      "group of 1",
                      "reduce_scatter 4 type 9 sum",
                      "group of 1",
                      "sends 8 bytes to 0",
                      "receives 8 bytes from 0",
                      "sends 8 bytes to 1",
                      "receives 8 bytes from 1",
                      "group of 4",
                      "sends 4 bytes to 0",
                      "receives 4 bytes from 0",
                      "sends 8 bytes to 1",
                      "group of 3",
                      "all_reduce 8 type 1 max",
                      "group of 1",
                      "all_reduce 1 type 5 max",
                      "group of 1",
                      "finalizes",
                      "is destroyed"});
}

TEST_CASE("nccl: a group has its collectives before its messages, and nothing of what is empty" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    const uint32_t other = 1 - rank.rank;
    tn_comm_op nothing = rank.op(TN_COMM_ALL_GATHER, 0);
    CHECK(rank.run({rank.message(TN_COMM_SEND, other, 0), rank.message(TN_COMM_RECV, other, 0), nothing,
                    rank.op(TN_COMM_ALL_REDUCE, 3)})
              .message() == "");
    CHECK(rank.run({nothing}).message() == "");
    CHECK(rank.submit({}).message() == "");
  };
  by_nccl({first, second}, body);
  const Lines one = lines_of(nccl_log(), 1);
  CHECK(one == Lines{"joins 2", "all_reduce 3 type 2 sum", "sends 4 bytes to 0", "receives 4 bytes from 0",
                     "group of 3", "finalizes", "is destroyed"});
}

TEST_CASE("nccl: factors are given in the bits of their type, or where they lie, and dropped again" *
          fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    tn_comm_op op = rank.op(TN_COMM_ALL_REDUCE, 2, TN_DTYPE_f16);
    op.reduce = TN_REDUCE_PREMUL_SUM;
    op.scalar = 0.5;
    tn_comm_op whole = rank.op(TN_COMM_ALL_REDUCE, 2, TN_DTYPE_i32);
    whole.reduce = TN_REDUCE_PREMUL_SUM;
    whole.scalar = -2;
    tn_comm_op there = op;
    there.factor = span(rank.memory, 0, 2);
    CHECK(rank.run({op, whole, there}).message() == "");
    whole.scalar = 0.5;
    CHECK(rank.submit({whole}).code == TN_INVALID);
  };
  by_nccl({first, second}, body);
  const Lines zero = lines_of(nccl_log(), 0);
  CHECK(zero == Lines{"joins 2", "premul type 6 14336", "premul type 2 4294967294",
                      "premul type 6 on the device", "all_reduce 2 type 6 premul",
                      "all_reduce 2 type 2 premul", "all_reduce 2 type 6 premul", "group of 3", "finalizes",
                      "is destroyed"});
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: what is swapped in place is sent from a copy" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    tn_comm_op op = rank.op(TN_COMM_ALL_TO_ALL, 8);
    op.recv = op.send;
    CHECK(rank.run({op}).message() == "");
    tn_capture* made = nullptr;
    (void)outcome_of([&](tn_error* e) { return captures().begin(rank.stream, e); });
    const Outcome captured = rank.submit({op});
    CHECK(captured.code == TN_UNSUPPORTED);
    CHECK(captured.says("give it two buffers"));
    (void)outcome_of([&](tn_error* e) { return captures().end(rank.stream, &made, e); });
    (void)outcome_of([&](tn_error* e) { return captures().destroy(made, e); });
  };
  by_nccl({first, second}, body);
}

TEST_CASE("nccl: a group on another stream begins when the one before has ended" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    if (rank.rank != 0) return;
    const Stream promises = make_stream(rank.device);
    const uint64_t held = promise(promises);
    wait(rank.stream, promises, held);
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 4)}).message() == "");
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 4)}, rank.other).message() == "");
    CHECK(rank.finish(rank.other, 30 * ms).code == TN_TIMEOUT);
    (void)try_signal(promises, held);
    CHECK(rank.finish(rank.other).message() == "");
  };
  by_nccl({first, second}, body);
}

TEST_CASE("nccl: groups of several communicators keep the order in which they were submitted" * fake_only) {
  CUDA_DRIVER("");
  NCCL("slow=20");
  const World world(with_nccl());
  const Device device = open_device();
  std::vector<Rank> ranks(2);
  LocalStore store;
  for (Rank& rank : ranks) {
    rank.device = device;
    prepare(rank);
    REQUIRE(try_join(device, 0, 1, make_id(device), &rank.comm, 20'000 * ms, &store.table).message() == "");
  }
  (void)nccl_log();
  Lines wanted;
  for (uint64_t i = 1; i <= 6; ++i) {
    CHECK(ranks[i % 2].submit({ranks[i % 2].op(TN_COMM_ALL_REDUCE, i)}).message() == "");
    wanted.push_back("all_reduce " + std::to_string(i) + " type 2 sum");
    wanted.push_back("group of 1");
  }
  CHECK(lines_of(nccl_log(), 0) == wanted);
  for (Rank& rank : ranks) CHECK(rank.leave().message() == "");
}

TEST_CASE("nccl: a communicator is divided by color and key" * fake_only) {
  CUDA_DRIVER("devices=4");
  NCCL("");
  const World world(with_nccl());
  std::vector<Device> devices;
  for (uint32_t d = 0; d < 4; ++d) devices.push_back(open_device(d));
  const auto body = [&](Rank& rank) {
    tn_comm_options options{};
    options.size = sizeof options;
    options.name = "part";
    tn_comm* part = nullptr;
    const int32_t color = rank.rank == 3 ? -1 : static_cast<int32_t>(rank.rank / 2);
    const Outcome said = outcome_of([&](tn_error* e) {
      return plugin().comm->split(rank.comm, color, -static_cast<int32_t>(rank.rank), &options, &part, e);
    });
    CHECK(said.message() == "");
    CHECK((part != nullptr) == (rank.rank != 3));
    if (part == nullptr) return;
    std::swap(rank.comm, part);
    CHECK(rank.run({rank.op(TN_COMM_ALL_REDUCE, 9)}).message() == "");
    CHECK(rank.leave().message() == "");
    rank.comm = part;
  };
  by_nccl({devices[0], devices[1], devices[2], devices[3]}, body);
  const std::string log = nccl_log();
  CHECK(std::ranges::count(lines_of(log, 3), "splits -1") == 1);
  CHECK(std::ranges::count(lines_of(log, 0), "all_reduce 9 type 2 sum") == 2);  // the first of either part
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: a group that is captured runs with every replay, though the communicator was destroyed" *
          fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  tn_capture* made[2] = {};
  std::atomic<size_t> alive{0};
  const auto body = [&](Rank& rank) {
    tn_capture*& mine = made[rank.rank];
    CHECK(outcome_of([&](tn_error* e) { return captures().begin(rank.stream, e); }).ok());
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)}).message() == "");
    CHECK(rank.submit({rank.op(TN_COMM_BARRIER, 0)}).message() == "");
    CHECK(outcome_of([&](tn_error* e) { return captures().end(rank.stream, &mine, e); }).message() == "");
    CHECK(rank.run({rank.op(TN_COMM_ALL_REDUCE, 2)}).message() == "");
    CHECK(rank.leave().message() == "");
    for (int i = 0; i < 2; ++i) {
      CHECK(outcome_of([&](tn_error* e) { return captures().replay(mine, rank.stream, e); }).message() == "");
      CHECK(rank.finish().message() == "");
    }
    const auto found = rank.found(rank.recv());
    CHECK(std::ranges::all_of(found, [](int32_t word) { return word == 0x7F7F7F7F; }));
    alive = nccl_left_over();
  };
  by_nccl({first, second}, body);
  CHECK(alive == 2);
  for (tn_capture* each : made) must([&](tn_error* e) { return captures().destroy(each, e); });
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: what the library has no call for is refused, and nothing is coerced" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 4, TN_DTYPE_i16)}).code == TN_UNSUPPORTED);
    tn_comm_op mean = rank.op(TN_COMM_ALL_REDUCE, 4, TN_DTYPE_bool);
    mean.reduce = TN_REDUCE_AVG;
    const Outcome said = rank.submit({mean});
    CHECK(said.code == TN_UNSUPPORTED);
    CHECK(said.says("operation 0: NCCL has no avg of bool"));
    CHECK(rank.run({rank.op(TN_COMM_ALL_REDUCE, 4)}).message() == "");
  };
  by_nccl({first, second}, body);
}
