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

double produce_consume(Player& player, uint32_t repeats, size_t count) {
  float* const data = player.memory();
  const double alone = timed(player, repeats, [&] { produce(data, count), consume(data, count); });
  const double with = timed(player, repeats, [&] {
    produce(data, count);
    player.all_reduce(data, count);
    player.finish();
    consume(data, count);
  });
  return std::max(with - alone, 1e-9);  // what is nothing beside the noise
}

// Each gradient begins on a cache line of its own, as an arena lays them out.
size_t place_after(size_t at, int64_t elements) {
  return (at + static_cast<size_t>(elements) + 15) / 16 * 16;
}

double gradients(Player& player, uint32_t repeats, bool flat) {
  static const std::vector<int64_t> sizes = resnet50_sizes();
  float* const data = player.memory();
  return timed(player, repeats, [&] {
    size_t at = 0;
    for (const int64_t elements : sizes) {
      if (!flat) player.all_reduce(data + at, static_cast<size_t>(elements));
      at = place_after(at, elements);
    }
    if (flat) player.all_reduce(data, at);
  });
}

double perform(Player& player, const Task& task, uint32_t rank, uint32_t size) {
  const size_t count = task.bytes / sizeof(float);
  switch (task.form) {
    case Form::check:
      return check(player, count, rank, size);
    case Form::back_to_back:
      return timed(player, task.repeats, [&] { player.all_reduce(player.memory(), count); });
    case Form::produce_consume:
      return produce_consume(player, task.repeats, count);
    case Form::gradients:
    case Form::flat:
      return gradients(player, task.repeats, task.form == Form::flat);
    case Form::barrier:
      return timed(player, task.repeats, [&] { player.barrier(); });
  }
  return -1;
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

void bind_to_processor(uint32_t rank) {
  cpu_set_t given, own;
  if (sched_getaffinity(0, sizeof given, &given) != 0) return;
  uint32_t turn = rank % static_cast<uint32_t>(CPU_COUNT(&given));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &given) || turn-- != 0) continue;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

}  // namespace bench
