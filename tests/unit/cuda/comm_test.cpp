// SPDX-License-Identifier: Apache-2.0
// comm_test.cpp: communicators of ranks that are threads: who meets, what is exchanged in whichever order the device likes, what
// is refused.
//
// The conformance kit asks for every operation, type and reduction; here is what it does not ask for.
#include "comm_ranks.hpp"

#include <algorithm>
#include <atomic>

using namespace cuda_test;

TEST_CASE("comm: an id that another plugin made is refused") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Id id = make_id(device);
  CHECK(id != make_id(device));
  id[0] ^= 1;
  tn_comm* comm = nullptr;
  const Outcome said = try_join(device, 0, 1, id, &comm);
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("make_id"));
}

TEST_CASE(
    "comm: a rank of another process is refused, and the ranks that wait for it are told by the store") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  LocalStore store;
  const Id id = make_id(device);
  Id foreign = id;
  foreign[8] ^= 1;  // made elsewhere: the one that waits there has the other id
  tn_comm* comm = nullptr;
  const Outcome said = try_join(device, 1, 2, foreign, &comm, 100 * ms, &store.table);
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK(said.says("rank 1 of communicator 'test' is in another process"));
  // The same words under the key of the id that is waited with.
  REQUIRE(store.values.size() == 1);
  uint64_t place[2];
  std::memcpy(place, id.data() + 8, sizeof place);
  const std::string key =
      "tenon.cuda/" + std::to_string(place[0]) + "/" + std::to_string(place[1]) + "/elsewhere";
  store.values = {{key, store.values.begin()->second}};
  const Outcome told = try_join(device, 0, 2, id, &comm, 20'000 * ms, &store.table);
  CHECK(told.code == TN_UNSUPPORTED);
  CHECK(told.says("rank 1 of communicator 'test' is in another process"));
}

TEST_CASE("comm: more ranks than the board has places for are refused") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  tn_comm* comm = nullptr;
  const Outcome said = try_join(device, 0, 17, make_id(device), &comm);
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK(said.says("16 threads"));
}

TEST_CASE("comm: a seat is taken once") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Id id = make_id(device);
  tn_comm *first = nullptr, *second = nullptr;
  CHECK(try_join(device, 0, 2, id, &first, 20'000 * ms, nullptr, TN_COMM_NON_BLOCKING).ok());
  const Outcome said = try_join(device, 0, 2, id, &second, 20'000 * ms, nullptr, TN_COMM_NON_BLOCKING);
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("each rank joins once"));
  must([&](tn_error* e) { return plugin().comm->destroy(first, 1'000 * ms, e); });
}

TEST_CASE("comm: devices that do not reach each other's memory make none" * fake_only) {
  CUDA_DRIVER("no_peers");
  const World world;
  const Device first = open_device(), second = open_device(1);
  const Id id = make_id(first);
  tn_comm* comms[2]{};
  Outcome said[2];
  std::thread other([&] { said[1] = try_join(second, 1, 2, id, &comms[1]); });
  said[0] = try_join(first, 0, 2, id, &comms[0]);
  other.join();
  for (const Outcome& each : said) {
    CHECK(each.code == TN_UNSUPPORTED);
    CHECK(each.says("cannot reach the memory of device"));
  }
}

TEST_CASE("comm: sums of ranks on one device and on two, in whichever order work runs" * fake_only) {
  CUDA_DRIVER("seed=11");
  const World world;
  const Device first = open_device(), second = open_device(1);
  for (const auto& devices : {std::vector<tn_device*>{first}, std::vector<tn_device*>{first, second}}) {
    together(
        devices, 3,
        [](Rank& rank) {
          for (int round = 0; round < 4; ++round) rank.submit({rank.op(TN_COMM_ALL_REDUCE, 61)});
        },
        [](Rank& rank) {
          const auto got = rank.found(rank.recv());
          REQUIRE(got.size() == Rank::words);
          for (int32_t i = 0; i < 61; ++i) CHECK(got[static_cast<size_t>(i)] == 30 + 3 * i);
          CHECK(got[61] == -1);  // past the count
        });
  }
}

// Whoever loads code waits for all streams, and those of the other ranks wait for this one.
TEST_CASE("comm: nothing is compiled for a sum, so it needs no compiler and loads nothing late") {
  CUDA_DRIVER("");
  const World world(Options{{"nvrtc", "/nowhere/libnvrtc.so"}});
  const Device device = open_device();
  together(
      {device}, 2, [](Rank& rank) { rank.run({rank.op(TN_COMM_ALL_REDUCE, 61)}); },
      [](Rank& rank) {
        const auto got = rank.found(rank.recv());
        REQUIRE(got.size() == Rank::words);
        CHECK(got[60] != -1);
        CHECK(got[61] == -1);
      });
}

// A driver that fills ordinary memory keeps others out until the stream has come there, which waits for them.
TEST_CASE(
    "comm: who reads a sum into ordinary memory at once does not keep the other ranks from bringing theirs") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  constexpr int rounds = 30;
  std::atomic<int> wrong{0};
  const auto body = [&](Rank& rank) {
    for (int round = 0; round < rounds && rank.health().ok(); ++round) {
      const Memory more = allocate(rank.device, 64);
      std::vector<int32_t> sum(Rank::words);
      rank.submit({rank.op(TN_COMM_ALL_REDUCE, 61)});
      const bool read = try_copy(rank.stream, host_span(sum.data(), Rank::side), rank.recv()).ok();
      wrong += read && sum[60] == 3 * 60 + 30 ? 0 : 1;
    }
  };
  together({device}, 3, body, [](Rank& rank) { CHECK(rank.finish().message() == ""); });
  CHECK(wrong == 0);
}

TEST_CASE("comm: what a group has goes side by side, in whatever order others submit it") {
  CUDA_DRIVER("seed=5");
  const World world;
  const Device device = open_device();
  // Rank 0 brings all at once; rank 1 the messages one by one before the sum, rank 2 the sum before them, which the others'
  // messages must not wait for.
  const auto body = [](Rank& rank) {
    const tn_comm_op sum = rank.op(TN_COMM_ALL_REDUCE, 8);
    if (rank.rank == 0) {
      rank.submit({sum, rank.message(TN_COMM_RECV, 2, 20), rank.message(TN_COMM_RECV, 1, 21),
                   rank.message(TN_COMM_SEND, 1, 7)});
    } else if (rank.rank == 1) {
      rank.submit({rank.message(TN_COMM_SEND, 0, 3)});
      rank.submit({rank.message(TN_COMM_SEND, 2, 4)});
      rank.submit({rank.message(TN_COMM_RECV, 0, 22)});
      rank.submit({sum});
    } else {
      rank.submit({rank.message(TN_COMM_RECV, 1, 23), sum});
      rank.submit({rank.message(TN_COMM_SEND, 0, 5)});
    }
    rank.finish();
  };
  together({device}, 3, body, [](Rank& rank) {
    const auto got = rank.found(rank.recv());
    REQUIRE(got.size() == Rank::words);
    for (size_t i = 0; i < 8; ++i) CHECK(got[i] == 30 + 3 * static_cast<int32_t>(i));
    if (rank.rank == 0) CHECK((got[20] == 25 && got[21] == 13));
    if (rank.rank == 1) CHECK(got[22] == 7);
    if (rank.rank == 2) CHECK(got[23] == 14);
  });
}

TEST_CASE("comm: a rank may send to itself") {
  CUDA_DRIVER("seed=5");
  const World world;
  const Device device = open_device();
  together(
      {device}, 1,
      [](Rank& rank) {
        rank.run({rank.message(TN_COMM_SEND, 0, 3), rank.message(TN_COMM_RECV, 0, 9)});
      },
      [](Rank& rank) { CHECK(rank.found(rank.recv()).at(9) == 3); });
}

TEST_CASE("comm: all_to_all in place, twice") {
  CUDA_DRIVER("seed=5");
  const World world;
  const Device device = open_device();
  const auto body = [](Rank& rank) {
    tn_comm_op op = rank.op(TN_COMM_ALL_TO_ALL, 16);
    op.recv = op.send;
    rank.submit({op});
    rank.submit({op});
    rank.submit({op});
    rank.finish();
  };
  together({device}, 4, body, [](Rank& rank) {
    const auto got = rank.found(rank.send());
    REQUIRE(got.size() == Rank::words);
    for (uint32_t from = 0; from < 4; ++from) {
      for (uint32_t i = 0; i < 16; ++i)
        CHECK(got[16 * from + i] == static_cast<int32_t>(10 * from + 16 * rank.rank + i));
    }
  });
}

TEST_CASE("comm: more groups than the board holds are submitted as room comes") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  constexpr int groups = 300;
  std::atomic<int> refused{0};
  const auto body = [&](Rank& rank) {
    for (int i = 0; i < groups; ++i) {
      tn_comm_op op = rank.op(TN_COMM_BROADCAST, 4);
      op.peer = i % 2;
      refused += rank.submit({op}).ok() ? 0 : 1;
    }
    refused += rank.finish().ok() ? 0 : 1;
  };
  together({device}, 2, body, [](Rank& rank) { CHECK(rank.found(rank.recv()).at(0) == 10); });
  CHECK(refused == 0);
}

TEST_CASE("comm: what cannot be is refused at once, and the communicator stays good") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const auto body = [](Rank&) {};
  together({device}, 1, body, [&](Rank& rank) {
    tn_comm_op odd = rank.op(TN_COMM_ALL_REDUCE, 4);
    odd.send = span(rank.memory, 2, 64);
    CHECK(rank.submit({odd}).says("no multiple of its type's 4 bytes"));
    tn_comm_op mean = rank.op(TN_COMM_ALL_REDUCE, 4, TN_DTYPE_bool);
    mean.reduce = TN_REDUCE_AVG;
    CHECK(rank.submit({mean}).code == TN_UNSUPPORTED);
    tn_comm_op half = rank.op(TN_COMM_ALL_REDUCE, 4);
    half.reduce = TN_REDUCE_PREMUL_SUM;
    half.scalar = 0.5;
    CHECK(rank.submit({half}).says("must be a whole number"));
    CHECK(rank.submit(std::vector<tn_comm_op>(129, rank.op(TN_COMM_BARRIER, 0))).code == TN_UNSUPPORTED);
    std::vector<tn_comm_op> many(33, rank.message(TN_COMM_SEND, 0, 1));
    CHECK(rank.submit(many).says("33 messages"));
    CHECK(rank.run({rank.op(TN_COMM_ALL_REDUCE, 4)}).message() == "");
  });
}

TEST_CASE("comm: a stream of another device carries no group, and a captured one neither" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device(), second = open_device(1);
  const Stream far = make_stream(second);
  together(
      {device}, 1, [](Rank&) {},
      [&](Rank& rank) {
        const Outcome elsewhere = rank.submit({rank.op(TN_COMM_BARRIER, 0)}, far);
        CHECK(elsewhere.code == TN_INVALID);
        CHECK(elsewhere.says("the stream is of device 'cuda:1'"));
        const auto* const capture =
            static_cast<const tn_capture_api*>(plugin().extension(&plugin(), TN_CAPTURE_ID));
        REQUIRE((capture != nullptr));
        must([&](tn_error* e) { return capture->begin(rank.stream, e); });
        CHECK(rank.submit({rank.op(TN_COMM_BARRIER, 0)}).says("being captured"));
        tn_capture* made = nullptr;
        must([&](tn_error* e) { return capture->end(rank.stream, &made, e); });
        must([&](tn_error* e) { return capture->destroy(made, e); });
      });
}

// A stream whose first work is a word that others wait for may lie behind those who wait.
TEST_CASE("comm: streams that a framework made and has not used carry barriers of ranks on one device") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Current current;
  const auto* const imports = static_cast<const tn_import_api*>(plugin().extension(&plugin(), TN_IMPORT_ID));
  REQUIRE((imports != nullptr));
  CUstream native[3]{};
  Stream borrowed[3];
  for (int i = 0; i < 3; ++i) {
    REQUIRE(driver_function<CUresult(CUstream*, unsigned, int)>("cuStreamCreateWithPriority")(
                &native[i], CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    tn_stream* made = nullptr;
    must([&](tn_error* e) {
      return imports->stream(device, reinterpret_cast<uint64_t>(native[i]), &made, e);
    });
    borrowed[i] = Stream(made);
  }
  Outcome said[3], again[3];
  const auto body = [&](Rank& rank) {
    tn_stream* const line = borrowed[rank.rank];
    said[rank.rank] = rank.submit({rank.op(TN_COMM_BARRIER, 0)}, line);
    if (said[rank.rank].ok()) said[rank.rank] = rank.finish(line);
    again[rank.rank] = rank.submit({rank.op(TN_COMM_ALL_REDUCE, 61)}, line);
    if (again[rank.rank].ok()) again[rank.rank] = rank.finish(line);
  };
  together(
      {device}, 3, body,
      [&](Rank& rank) {
        CHECK(said[rank.rank].message() == "");
        CHECK(again[rank.rank].message() == "");
        CHECK(rank.found(rank.recv()).at(60) == 30 + 3 * 60);
      },
      3'000 * ms);
  for (int i = 0; i < 3; ++i) {
    borrowed[i].reset();
    CHECK(driver_function<CUresult(CUstream)>("cuStreamDestroy_v2")(native[i]) == CUDA_SUCCESS);
  }
}

TEST_CASE("comm: a stream beside the rank's that cannot begin ends the group, and the next one has it" *
          fake_only) {
  CUDA_DRIVER("launch_refused_at=3,check");  // the rank's own two have begun
  const World world;
  const Device device = open_device();
  const auto group = [](const Rank& rank) {
    return rank.run(
        {rank.op(TN_COMM_ALL_REDUCE, 8), rank.message(TN_COMM_SEND, 0, 3), rank.message(TN_COMM_RECV, 0, 9)});
  };
  Outcome refused;
  together({device}, 1, [&](Rank& rank) { refused = group(rank); });
  CHECK(refused.error.native_code == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  Outcome taken;
  together(
      {device}, 1, [&](Rank& rank) { taken = group(rank); },
      [](Rank& rank) { CHECK(rank.found(rank.recv()).at(9) == 3); });
  CHECK(taken.message() == "");
}

// A driver that unloads waits for every stream, and the stream of one rank for the thread of another.
TEST_CASE("comm: while ranks are joined no code is unloaded, and once they have left it is" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const auto modules = [] { return driver_function<size_t()>("fakecuda_modules")(); };
  const auto compile_some = [&](int count) {
    for (int i = 0; i < count; ++i) compile(device, Addition(8 + i).fragment());
  };
  size_t joined = 0;
  together(
      {device}, 2, [](Rank& rank) { rank.run({rank.op(TN_COMM_BARRIER, 0)}); },
      [&](Rank& rank) {
        if (rank.rank != 0) return;
        joined = modules();
        compile_some(20);
        CHECK(modules() == joined + 20);
      });
  compile_some(1);
  CHECK(modules() == joined);
}

TEST_CASE("comm: imported memory is taken on one device and refused across two" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device first = open_device(), second = open_device(1);
  const auto* const imports = static_cast<const tn_import_api*>(plugin().extension(&plugin(), TN_IMPORT_ID));
  REQUIRE((imports != nullptr));
  for (const auto& devices : {std::vector<tn_device*>{first}, std::vector<tn_device*>{first, second}}) {
    Outcome said[2];
    std::atomic<int> tried{0};
    const auto body = [&](Rank& rank) {
      tn_memory* borrowed = nullptr;
      (void)imports->memory(rank.device, address(rank.memory), 64, &borrowed, nullptr);
      tn_comm_op op = rank.op(TN_COMM_ALL_REDUCE, 16);
      op.send = op.recv = span(borrowed, 0, 64);
      said[rank.rank] = rank.run({op});
      ++tried;
      while (tried < 2) std::this_thread::yield();
      (void)plugin().device->free(borrowed, nullptr);
    };
    together(devices, 2, body);
    for (const Outcome& each : said) {
      if (devices.size() == 1)
        CHECK(each.message() == "");
      else
        CHECK(each.says("imported memory"));
    }
  }
}

TEST_CASE("comm: parts of a communicator end and fail by themselves") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Outcome aborted[4], summed[4];
  const auto body = [&](Rank& rank) {
    tn_comm* part = nullptr;
    tn_comm_options options{};
    options.size = sizeof options;
    (void)plugin().comm->split(rank.comm, static_cast<int32_t>(rank.rank % 2), 0, &options, &part, nullptr);
    if (part == nullptr) return;
    if (rank.rank % 2 == 0) (void)plugin().comm->abort(part, nullptr);
    aborted[rank.rank] = outcome_of([&](tn_error* e) { return plugin().comm->health(part, e); });
    (void)plugin().comm->destroy(part, 1'000 * ms, nullptr);
    summed[rank.rank] = rank.run({rank.op(TN_COMM_ALL_REDUCE, 64)});
  };
  together({device}, 4, body, [&](Rank& rank) {
    CHECK(aborted[rank.rank].code == (rank.rank % 2 == 0 ? TN_ABORTED : TN_OK));
    CHECK(summed[rank.rank].message() == "");
  });
}

TEST_CASE("comm: page-locked memory is freed and made while others wait for who does it") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Outcome summed[3];
  std::atomic<int> waiting{0};
  const auto body = [&](Rank& rank) {
    const bool comes_last = rank.rank == 1;
    while (comes_last && waiting < 2) std::this_thread::yield();
    for (int round = 0; comes_last && round < 2; ++round) {
      tn_memory* pinned = nullptr;
      must([&](tn_error* e) {
        return plugin().device->alloc(rank.device, TN_MEMORY_HOST, 1 << 16, 64, &pinned, e);
      });
      must([&](tn_error* e) { return plugin().device->free(pinned, e); });
    }
    const Outcome said = rank.submit({rank.op(TN_COMM_ALL_REDUCE, 64)});
    ++waiting;
    summed[rank.rank] = said.ok() ? rank.finish() : said;
  };
  together({device}, 3, body, [&](Rank& rank) { CHECK(summed[rank.rank].message() == ""); });
}
