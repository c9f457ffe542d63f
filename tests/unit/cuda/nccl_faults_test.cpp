// SPDX-License-Identifier: Apache-2.0
// nccl_faults_test.cpp: what ends a communicator that NCCL carries, or keeps it from standing.
//
// Invariant: nobody waits longer than he was told to, and every stream is let go.
#include "nccl_ranks.hpp"

#include <algorithm>
#include <atomic>

using namespace cuda_test;

TEST_CASE("nccl: an abort by another thread ends a group that hangs" * fake_only) {
  CUDA_DRIVER("");
  NCCL("hang_at=1");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  Outcome said[2];
  const auto body = [&](Rank& rank) {
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)}).message() == "");
    std::thread other([&] { CHECK(rank.abort().message() == ""); });
    said[rank.rank] = rank.finish();
    other.join();
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)}).code == TN_ABORTED);
  };
  by_nccl({first, second}, body, [&](Rank& rank) {
    CHECK(rank.health().code == TN_ABORTED);
    CHECK(said[rank.rank].code == TN_ABORTED);
    CHECK(said[rank.rank].says("aborted communicator 'test'"));
  });
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: an abort ends a submit that waits for the library" * fake_only) {
  CUDA_DRIVER("");
  NCCL("slow=4000");
  const World world(with_nccl());
  const Device device = open_device();
  const auto body = [&](Rank& rank) {
    (void)nccl_log();
    std::thread other([&] {
      while (nccl_log().find("a group begins") == std::string::npos) std::this_thread::yield();
      (void)rank.abort();
    });
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)}).code == TN_ABORTED);
    other.join();
  };
  by_nccl({device}, body);
}

TEST_CASE("nccl: an error that the library notices by itself ends the communicator" * fake_only) {
  CUDA_DRIVER("");
  NCCL("remote_error_at=2");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    CHECK(rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)}).message() == "");
    const Outcome said = rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)});
    CHECK(said.code == TN_PEER_LOST);
    CHECK_MESSAGE(said.says("ncclRemoteError"), said.message());
    CHECK(rank.health().code == TN_PEER_LOST);
  };
  by_nccl({first, second}, body);
}

TEST_CASE("nccl: a group that began and makes no end is ended after the timeout" * fake_only) {
  CUDA_DRIVER("");
  NCCL("hang_at=2");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  const auto body = [&](Rank& rank) {
    CHECK(rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)}).message() == "");
    const Outcome said = rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)});
    CHECK(said.code == TN_PEER_LOST);
    CHECK_MESSAGE(said.says("did not end within 1000 ms"), said.message());
  };
  by_nccl({first, second}, body, {}, 1000 * ms);
}

TEST_CASE("nccl: who destroys it with a group on its way is told" * fake_only) {
  CUDA_DRIVER("");
  NCCL("hang_at=1");
  const World world(with_nccl());
  const Device device = open_device();
  const auto body = [&](Rank& rank) {
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)}).message() == "");
    CHECK(rank.leave(20 * ms).code == TN_ABORTED);
    CHECK(rank.finish().code == TN_ABORTED);
  };
  by_nccl({device}, body);
}

TEST_CASE("nccl: a graph of an aborted communicator is not replayed" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device device = open_device();
  tn_capture* made = nullptr;
  const auto body = [&](Rank& rank) {
    CHECK(outcome_of([&](tn_error* e) { return captures().begin(rank.stream, e); }).ok());
    CHECK(rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)}).message() == "");
    CHECK(outcome_of([&](tn_error* e) { return captures().end(rank.stream, &made, e); }).message() == "");
    CHECK(rank.abort().message() == "");
    const Outcome said = outcome_of([&](tn_error* e) { return captures().replay(made, rank.stream, e); });
    CHECK(said.code == TN_ABORTED);
  };
  by_nccl({device}, body);
  must([&](tn_error* e) { return captures().destroy(made, e); });
}

TEST_CASE("nccl: a rank that does not come to the store is named" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device device = open_device();
  LocalStore store;
  tn_comm* comm = nullptr;
  const Outcome said = try_join(device, 0, 2, make_id(device), &comm, 100 * ms, &store.table);
  CHECK(said.code == TN_TIMEOUT);
  CHECK(said.says("rank 1 did not join communicator 'test' within 100 ms"));
}

TEST_CASE("nccl: what the library does not connect in time is given up" * fake_only) {
  CUDA_DRIVER("");
  NCCL("never");
  const World world(with_nccl());
  const Device device = open_device();
  LocalStore store;
  tn_comm* comm = nullptr;
  const Outcome said = try_join(device, 0, 1, make_id(device), &comm, 100 * ms, &store.table);
  CHECK(said.code == TN_TIMEOUT);
  CHECK(said.says("NCCL did not connect it to the others in time"));
  CHECK(nccl_left_over() == 0);
}

TEST_CASE("nccl: a create that does not block meets on a thread, and can be given up at any time" *
          fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device first = open_device(), second = open_device(1);
  LocalStore store;
  Rank ranks[2];
  const Id id = make_id(first);
  const auto join = [&](uint32_t r, tn_device* device) {
    ranks[r].rank = r;
    ranks[r].device = device;
    prepare(ranks[r]);
    CHECK(try_join(device, r, 2, id, &ranks[r].comm, 20'000 * ms, &store.table, TN_COMM_NON_BLOCKING).ok());
  };
  join(0, first);
  CHECK(ranks[0].health().code == TN_BUSY);
  CHECK(ranks[0].submit({ranks[0].op(TN_COMM_ALL_REDUCE, 4)}).code == TN_BUSY);
  SUBCASE("it stands when all have come") {
    join(1, second);
    for (Rank& rank : ranks) {
      while (rank.health().code == TN_BUSY) std::this_thread::yield();
      CHECK(rank.health().message() == "");
      CHECK(rank.run({rank.op(TN_COMM_ALL_REDUCE, 4)}).message() == "");
    }
    for (Rank& rank : ranks) CHECK(rank.leave().message() == "");
  }
  SUBCASE("destroyed before") { CHECK(ranks[0].leave().message() == ""); }
  SUBCASE("aborted before") {
    CHECK(ranks[0].abort().message() == "");
    CHECK(ranks[0].health().code == TN_ABORTED);
    CHECK(ranks[0].leave().message() == "");
  }
}

TEST_CASE("nccl: a rank of another process that has no NCCL is a reason to refuse" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device device = open_device();
  LocalStore store;
  const Id id = make_id(device);
  tn_comm* comm = nullptr;
  CHECK(try_join(device, 0, 2, id, &comm, 1 * ms, &store.table).code == TN_TIMEOUT);
  REQUIRE(store.values.size() == 1);
  const std::string key = store.values.begin()->first;
  store.values = {
      {key.substr(0, key.size() - 1) + "1", "42 2 0 0 0 0\nelsewhere\n0000:01:00.0\nit is not installed"}};
  const Outcome said = try_join(device, 0, 2, id, &comm, 20'000 * ms, &store.table);
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK_MESSAGE(said.says("rank 1 has no NCCL: it is not installed"), said.message());
}

TEST_CASE("nccl: two ranks that say they are one are told" * fake_only) {
  CUDA_DRIVER("");
  NCCL("");
  const World world(with_nccl());
  const Device device = open_device();
  LocalStore store;
  const Id id = make_id(device);
  tn_comm* comm = nullptr;
  CHECK(try_join(device, 0, 2, id, &comm, 1 * ms, &store.table).code == TN_TIMEOUT);
  CHECK(try_join(device, 0, 2, id, &comm, 1 * ms, &store.table).says("each rank joins once"));
}

namespace {

// What a rank says of NCCL under these options; ids say that nobody has it, and threads join by themselves.
std::string why_not(Options options) {
  const World world(std::move(options));
  const Device device = open_device();
  Id id = make_id(device);
  CHECK(std::all_of(id.end() - 8, id.end(), [](unsigned char byte) { return byte == 0; }));
  LocalStore store;
  tn_comm* comm = nullptr;
  CHECK(try_join(device, 0, 1, id, &comm, 20'000 * ms, &store.table).message() == "");
  CHECK(store.values.empty());
  must([&](tn_error* e) { return plugin().comm->destroy(comm, 20'000 * ms, e); });
  *(id.end() - 8) = 1;  // as of a maker who has it: this rank tells the others why it has none
  CHECK(try_join(device, 0, 2, id, &comm, 1 * ms, &store.table).code == TN_TIMEOUT);
  REQUIRE(store.values.size() == 1);
  return store.values.begin()->second;
}

bool tells(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("nccl: without the library threads join by themselves, and it is told what to install" *
          fake_only) {
  CUDA_DRIVER("");
  NCCL("slow=1");  // a process of its own: the library is opened once
  const std::string said = why_not({{"nccl", "/nowhere/libnccl.so.2"}});
  CHECK_MESSAGE(tells(said, "NCCL is missing: install libnccl2"), said);
  CHECK_MESSAGE(tells(said, "/nowhere/libnccl.so.2"), said);
}

TEST_CASE("nccl: a library that is too old is none" * fake_only) {
  CUDA_DRIVER("");
  NCCL("version=22703");
  const std::string said = why_not({{"nccl", "libnccl.so.2"}});
  CHECK_MESSAGE(tells(said, "is NCCL 2.27.3: 2.28.0 or newer is needed"), said);
}

TEST_CASE("nccl: the option off leaves it out" * fake_only) {
  CUDA_DRIVER("");
  const std::string said = why_not({{"nccl", "off"}});
  CHECK_MESSAGE(tells(said, "the option cuda.nccl = off leaves NCCL out"), said);
}

TEST_CASE("nccl: an option that names no carrier is told" * fake_only) {
  CUDA_DRIVER("");
  const World world(Options{{"comm", "mpi"}});
  const Device device = open_device();
  tn_comm* comm = nullptr;
  const Outcome said = try_join(device, 0, 1, make_id(device), &comm);
  CHECK(said.code == TN_INVALID);
  CHECK_MESSAGE(said.says("option cuda.comm is 'mpi'"), said.message());
}
