// SPDX-License-Identifier: Apache-2.0
// comm_order_test.cpp: groups of three ranks on a driver that runs what it may in the worst order.
//
// One thread plays all ranks, because no submit waits for another rank: so equal seeds give equal orders. Each buffer is written
// right before its group and spoilt right after it. The results must be those of one step after the other; with one of the
// waits for a word dropped by the driver they must not, or this test shows nothing.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/temp_folder.hpp"
#include "support/world.hpp"

#include <tenon/comm.h>

#include <cuda.h>
#include <dlfcn.h>

#include <string>

using namespace tenon::test;

namespace {

constexpr uint32_t size = 3, rounds = 5;
constexpr uint64_t count = 96, block = 4 * count;  // so that each rank has a slice of a sum
constexpr uint64_t second = 1'000'000'000;

void configure_driver(const std::string& settings) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE((library != nullptr));
  const auto set = reinterpret_cast<CUresult (*)(const char*)>(dlsym(library, "fakecuda_configure"));
  REQUIRE((set != nullptr));
  REQUIRE(set(settings.c_str()) == CUDA_SUCCESS);
}

// Reductions are compiled once for all worlds of this process.
const std::string& compiled() {
  static const TempFolder folder;
  return folder.path();
}

// A rank's memory: what it sends, what it receives, and a copy of that for each round.
struct Player {
  Stream stream{};
  Memory memory{};
  tn_comm* comm = nullptr;
  tn_span send() const { return span(memory, 0, block); }
  tn_span recv() const { return span(memory, block, size * block); }
  tn_span log(uint32_t round) const { return span(memory, (1 + size + round * size) * block, size * block); }
};

uint32_t brought(uint32_t rank, uint32_t round) { return 100 * round + rank + 1; }

std::vector<tn_comm_op> group_of(const Player& player, uint32_t rank, uint32_t round) {
  tn_comm_op op{};
  op.dtype = TN_DTYPE_i32;
  op.reduce = TN_REDUCE_SUM;
  op.count = count;
  op.send = player.send();
  op.recv = player.recv();
  if (round % 3 == 0) op.kind = TN_COMM_ALL_REDUCE;
  if (round % 3 == 1) op.kind = TN_COMM_ALL_GATHER;
  if (round % 3 != 2) return {op};
  tn_comm_op to = op, from = op;
  to.kind = TN_COMM_SEND;
  to.peer = static_cast<int32_t>((rank + 1) % size);
  from.kind = TN_COMM_RECV;
  from.peer = static_cast<int32_t>((rank + size - 1) % size);
  return {to, from};
}

// Word `at` of what a rank has received in a round; 0 where nothing comes.
uint32_t wanted(uint32_t rank, uint32_t round, uint64_t at) {
  const auto from = static_cast<uint32_t>(at / count);
  if (round % 3 == 1) return brought(from, round);
  if (from != 0) return 0;
  if (round % 3 == 2) return brought((rank + size - 1) % size, round);
  return brought(0, round) + brought(1, round) + brought(2, round);
}

void join_all(tn_device* device, std::vector<Player>& players) {
  uint64_t bytes = 0;
  must([&](tn_error* e) { return plugin().comm->id_bytes(device, &bytes, e); });
  std::vector<unsigned char> id(bytes);
  must([&](tn_error* e) { return plugin().comm->make_id(device, id.data(), bytes, e); });
  tn_comm_options options{};
  options.size = sizeof options;
  options.flags = TN_COMM_NON_BLOCKING;
  for (uint32_t r = 0; r < size; ++r) {
    must([&](tn_error* e) {
      return plugin().comm->create(device, r, size, id.data(), bytes, &options, &players[r].comm, e);
    });
  }
}

void play(const Player& player, uint32_t rank, uint32_t round) {
  fill(player.stream, player.recv(), 0, 4);
  fill(player.stream, player.send(), brought(rank, round), 4);
  const auto group = group_of(player, rank, round);
  must([&](tn_error* e) {
    return plugin().comm->submit(player.comm, player.stream, group.data(),
                                 static_cast<uint32_t>(group.size()), e);
  });
  fill(player.stream, player.send(), 0xBAD, 4);
  copy(player.stream, player.log(round), player.recv());
}

bool computes_right(const std::string& settings) {
  configure_driver(settings);
  const PluginWorld world("cuda", {{"cache", compiled()}, {"nccl", "off"}});
  const Device device = open_device();
  std::vector<Player> players(size);
  for (Player& player : players) {
    player.stream = make_stream(device);
    player.memory = allocate(device, (1 + size + rounds * size) * block);
  }
  join_all(device, players);
  for (uint32_t round = 0; round < rounds; ++round)
    for (uint32_t r = 0; r < size; ++r) play(players[(r + round) % size], (r + round) % size, round);
  bool right = true;
  for (uint32_t r = 0; r < size; ++r) {
    for (uint32_t round = 0; round < rounds; ++round) {
      const auto found = download(players[r].stream, players[r].log(round));
      for (uint64_t at = 0; at < size * count; ++at) {
        uint32_t got = 0;
        std::memcpy(&got, found.data() + 4 * at, 4);
        right = right && got == wanted(r, round, at);
      }
    }
  }
  for (Player& player : players)
    must([&](tn_error* e) { return plugin().comm->destroy(player.comm, 20 * second, e); });
  return right;
}

}  // namespace

TEST_CASE("comm order: groups are right in every order that was allowed") {
  const uint64_t runs = full_run() ? 200 : 12;
  const uint64_t first = seed();
  for (uint64_t number = first; number < first + runs; ++number) {
    CAPTURE(number);
    CHECK(computes_right("seed=" + std::to_string(number)));
  }
}

TEST_CASE("comm order: without any one of the waits for a word they are wrong in some order") {
  // Of one round: two waits for "ready" and two for "done" of each rank's sum.
  for (uint64_t dropped = 1; dropped <= 12; ++dropped) {
    CAPTURE(dropped);
    bool caught = false;
    for (uint64_t number = 1; number <= 40 && !caught; ++number)
      caught = !computes_right("seed=" + std::to_string(number) + ",drop_value=" + std::to_string(dropped));
    CHECK(caught);
  }
}
