// SPDX-License-Identifier: Apache-2.0
// player.cpp: what is timed, and what is compared.
#include "player.hpp"

#include "../resnet50.hpp"

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace bench {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What `repeats` calls of `body` take, from a common start to the end of the last, for one.
template <class Body>
double timed(Player& player, uint32_t repeats, Body&& body) {
  player.barrier();
  const double start = seconds();
  for (uint32_t i = 0; i < repeats; ++i) body();
  player.finish();
  return (seconds() - start) / repeats;
}

[[gnu::noinline]] void produce(float* data, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] = 1;
  asm volatile("" ::"r"(data) : "memory");
}

[[gnu::noinline]] void consume(const float* data, size_t count) {
  float sums[16] = {};
  for (size_t i = 0; i + 16 <= count; i += 16) {
    for (size_t k = 0; k < 16; ++k) sums[k] += data[i + k];
  }
  asm volatile("" ::"r"(sums) : "memory");
}

// Whole numbers, so that every order of adding gives the same.
float brought(size_t i, uint32_t rank) { return static_cast<float>((i * 7 + rank * 13) % 101); }

double check(Player& player, size_t count, uint32_t rank, uint32_t size) {
  float* const data = player.memory();
  for (size_t i = 0; i < count; ++i) data[i] = brought(i, rank);
  player.barrier();
  player.all_reduce(data, count);
  player.finish();
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (uint32_t r = 0; r < size; ++r) sum += brought(i, r);
    if (data[i] != sum) return -1;
  }
  std::memset(data, 0, count * sizeof(float));  // repeated sums stay finite
  player.barrier();
  return 0;
}

struct Part {
  float* data;
  size_t count;
};

// Each gradient begins on a cache line of its own, as an arena lays them out.
std::vector<Part> gradients(float* data) {
  static const std::vector<int64_t> sizes = resnet50_sizes();
  std::vector<Part> out;
  for (const int64_t elements : sizes) {
    const auto count = static_cast<size_t>(elements);
    out.push_back({data, count});
    data += (count + 15) / 16 * 16;
  }
  return out;
}

// What is reduced each time, in its order.
std::vector<Part> parts_of(const Work& work, float* data) {
  if (work.load == Load::bytes) return {{data, work.bytes / sizeof(float)}};
  std::vector<Part> all = gradients(data);
  if (work.load == Load::gradients) return all;
  return {{data, static_cast<size_t>(all.back().data - data) + all.back().count}};
}

// A part is reduced as soon as it is written; all are read when all are there.
double produce_consume(Player& player, uint32_t repeats, const std::vector<Part>& parts) {
  const auto consume_all = [&] {
    for (const Part& part : parts) consume(part.data, part.count);
  };
  const double alone = timed(player, repeats, [&] {
    for (const Part& part : parts) produce(part.data, part.count);
    consume_all();
  });
  const double with = timed(player, repeats, [&] {
    for (const Part& part : parts) {
      produce(part.data, part.count);
      player.all_reduce(part.data, part.count);
    }
    player.finish();
    consume_all();
  });
  return std::max(with - alone, alone / 20);  // less is nothing beside the noise
}

double perform(Player& player, const Task& task, uint32_t rank, uint32_t size) {
  const Work& work = task.work;
  if (work.form == Form::check) return check(player, work.bytes / sizeof(float), rank, size);
  if (work.form == Form::barrier) return timed(player, task.repeats, [&] { player.barrier(); });
  const std::vector<Part> parts = parts_of(work, player.memory());
  if (work.form == Form::produce_consume) return produce_consume(player, task.repeats, parts);
  return timed(player, task.repeats, [&] {
    for (const Part& part : parts) player.all_reduce(part.data, part.count);
  });
}

}  // namespace

void play(int socket, Player& player, uint32_t rank, uint32_t size) {
  for (Task task; recv(socket, &task, sizeof task, MSG_WAITALL) == sizeof task;) {
    player.take(task.way);
    const Answer answer{perform(player, task, rank, size)};
    if (send(socket, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) return;
  }
}

int enter(const std::string& path, uint32_t rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket >= 0 && connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      send(socket, &rank, sizeof rank, MSG_NOSIGNAL) == sizeof rank)
    return socket;
  if (socket >= 0) close(socket);
  return -1;
}

uint32_t bind_to_processor(uint32_t rank) {
  cpu_set_t given, own;
  if (sched_getaffinity(0, sizeof given, &given) != 0) return 1;
  const auto processors = static_cast<uint32_t>(CPU_COUNT(&given));
  uint32_t turn = rank % processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &given) || turn-- != 0) continue;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
    break;
  }
  return processors;
}

}  // namespace bench
