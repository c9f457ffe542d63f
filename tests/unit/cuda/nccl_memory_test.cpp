// SPDX-License-Identifier: Apache-2.0
// nccl_memory_test.cpp: memory that NCCL is told of: when, how often, and when it is let go.
#include "nccl_ranks.hpp"

using namespace cuda_test;
using Lines = std::vector<std::string>;

namespace {

// Sums 64 words in each of the memories in turn.
void sum_in(Rank& rank, std::initializer_list<const Memory*> memories) {
  for (const Memory* memory : memories) {
    tn_comm_op op = rank.op(TN_COMM_ALL_REDUCE, 64);
    op.send = op.recv = span(*memory, 0, 256);
    CHECK(rank.run({op}).message() == "");
  }
}

}  // namespace

TEST_CASE(
    "nccl: memory is registered where all ranks ask for it, once, and let go with whichever ends first" *
    fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl({{"register", "1"}}));
  const Device first = open_device(), second = open_device(1);
  Memory outlives[2];
  const auto body = [&](Rank& rank) {
    const Memory large = allocate(rank.device, 3 << 20), small = allocate(rank.device, 4096);
    outlives[rank.rank] = allocate(rank.device, 2 << 20);
    sum_in(rank, {&large, &small, &large, &outlives[rank.rank]});
  };
  by_nccl({first, second}, body);
  CHECK(lines_of(nccl_log(), 1) == Lines{"joins 2", "registers 4194304 bytes", "all_reduce 64 type 2 sum",
                                         "group of 1", "all_reduce 64 type 2 sum", "group of 1",
                                         "all_reduce 64 type 2 sum", "group of 1", "registers 2097152 bytes",
                                         "all_reduce 64 type 2 sum", "group of 1", "lets memory go",
                                         "lets memory go", "finalizes", "is destroyed"});
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: memory of an aborted communicator ends quietly" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl({{"register", "1"}}));
  const Device first = open_device(), second = open_device(1);
  Memory memories[2];
  const auto body = [&](Rank& rank) {
    memories[rank.rank] = allocate(rank.device, 2 << 20);
    sum_in(rank, {&memories[rank.rank]});
    CHECK(rank.abort().message() == "");
  };
  by_nccl({first, second}, body);
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: windows are made by all ranks together, and close with whichever ends first" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl({{"register", "windows"}}));
  const Device first = open_device(), second = open_device(1);
  Memory outlives[2];
  const auto body = [&](Rank& rank) {
    const Memory large = allocate(rank.device, 3 << 20), small = allocate(rank.device, 4096);
    outlives[rank.rank] = allocate(rank.device, 2 << 20);
    sum_in(rank, {&large, &small, &outlives[rank.rank], &large});
  };
  by_nccl({first, second}, body);
  CHECK(lines_of(nccl_log(), 1) ==
        Lines{"joins 2", "opens a window of 4194304 bytes", "all_reduce 64 type 2 sum", "group of 1",
              "all_reduce 64 type 2 sum", "group of 1", "opens a window of 2097152 bytes",
              "all_reduce 64 type 2 sum", "group of 1", "all_reduce 64 type 2 sum", "group of 1",
              "closes a window", "closes a window", "finalizes", "is destroyed"});
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: windows that are not alike end the communicator, on all ranks" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl({{"register", "windows"}}));
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    const Memory memory = allocate(rank.device, (2 << 20) << rank.rank);
    tn_comm_op op = rank.op(TN_COMM_ALL_REDUCE, 64);
    op.send = op.recv = span(memory, 0, 256);
    CHECK_FALSE(rank.run({op}).ok());
  };
  by_nccl({first, second}, body);
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: a window that the others do not make is waited for as long as they may take" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl({{"register", "windows"}}));
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    if (rank.rank != 0) return;
    const Memory memory = allocate(rank.device, 2 << 20);
    tn_comm_op op = rank.op(TN_COMM_ALL_REDUCE, 64);
    op.send = op.recv = span(memory, 0, 256);
    const Outcome said = rank.run({op});
    CHECK(said.code == TN_PEER_LOST);
    CHECK(said.says("waited in vain for the others to make a window of 2097152 bytes"));
  };
  by_nccl({first, second}, body, {}, 200 * ms);
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: memory becomes a window before it is captured, and not while it is" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl({{"register", "windows"}}));
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    const Memory memory = allocate(rank.device, 2 << 20);
    tn_comm_op op = rank.op(TN_COMM_ALL_REDUCE, 64);
    op.send = op.recv = span(memory, 0, 256);
    const auto captured = [&] {
      tn_capture* made = nullptr;
      CHECK(outcome_of([&](tn_error* e) { return captures().begin(rank.stream, e); }).ok());
      const Outcome out = rank.submit({op});
      (void)outcome_of([&](tn_error* e) { return captures().end(rank.stream, &made, e); });
      (void)outcome_of([&](tn_error* e) { return captures().destroy(made, e); });
      return out;
    };
    const Outcome early = captured();
    CHECK(early.code == TN_UNSUPPORTED);
    CHECK(early.says("run such a group once before the capture"));
    sum_in(rank, {&memory});
    CHECK(captured().message() == "");
  };
  by_nccl({first, second}, body);
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: without the option no memory is registered, and another value is told" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  {
    const World world(with_nccl());
    const Device first = open_device(), second = open_device(1);
    by_nccl({first, second}, [&](Rank& rank) {
      const Memory large = allocate(rank.device, 2 << 20);
      sum_in(rank, {&large});
    });
    CHECK(lines_of(nccl_log(), 0)[1] == "all_reduce 64 type 2 sum");
  }
  const World world(with_nccl({{"register", "yes"}}));
  const Device device = open_device();
  tn_comm* comm = nullptr;
  const Outcome refused = try_join(device, 0, 1, make_id(device), &comm);
  CHECK(refused.code == TN_INVALID);
  CHECK(refused.says("option cuda.register is 'yes'"));
}
