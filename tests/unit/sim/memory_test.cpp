// SPDX-License-Identifier: Apache-2.0
// memory_test.cpp: the separate address space, and memory that is never what a careless host hopes for.
#include "world.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using namespace sim_test;

namespace {

// The signal that ends a child which reads or writes one byte at `address`; 0 when it lives.
int touch_in_a_child(uint64_t address, bool write) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would report and exit
    auto* const byte = reinterpret_cast<volatile unsigned char*>(address);
    if (write)
      *byte = 1;
    else
      static_cast<void>(*byte);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

tn_memory_info figures(tn_device* device) {
  tn_memory_info out{};
  out.size = sizeof out;
  must([&](tn_error* e) { return plugin().device->memory_info(device, &out, e); });
  return out;
}

}  // namespace

TEST_CASE("memory: the host faults when it touches device memory") {
  const World world(Options{});
  const Device device = open_device();
  const Memory memory = allocate(device, 5000);
  CHECK(touch_in_a_child(address(memory), false) == SIGSEGV);
  CHECK(touch_in_a_child(address(memory) + 4999, true) == SIGSEGV);
}

TEST_CASE("memory: pinned and managed memory may be touched, until it is freed") {
  const World world(Options{{"profile", "plain"}});
  const Device device = open_device();
  for (const uint32_t kind : {TN_MEMORY_HOST, TN_MEMORY_MANAGED}) {
    CAPTURE(kind);
    Memory memory = allocate(device, 5000, kind);
    const uint64_t at = address(memory);
    CHECK(touch_in_a_child(at, true) == 0);
    CHECK(touch_in_a_child(at + 4999, false) == 0);
    memory.reset();
    CHECK(touch_in_a_child(at, false) == SIGSEGV);
  }
}

TEST_CASE("memory: what the host writes to pinned memory is what the device copies") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory pinned = allocate(device, 64, TN_MEMORY_HOST), memory = allocate(device, 64);
  auto* const bytes = reinterpret_cast<unsigned char*>(address(pinned));
  std::memset(bytes, 3, 64);
  copy(stream, span(memory, 0, 64), span(pinned, 0, 64));
  bytes[0] = 4;  // before the copy has run: it is asynchronous
  std::vector<unsigned char> expected(64, 3);
  expected[0] = 4;
  CHECK(download(stream, span(memory, 0, 64)) == expected);
}

TEST_CASE("memory: new memory is full of garbage, also where it was zero") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  for (int round = 0; round < 3; ++round) {
    const Memory memory = allocate(device, 4096);
    const auto found = download(stream, span(memory, 0, 4096));
    CHECK(std::count(found.begin(), found.end(), 0) == 0);
    fill(stream, span(memory, 0, 4096), 0);
    drain(stream);
  }
}

TEST_CASE("memory: a block of any size has forgotten its last owner") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  for (const uint64_t bytes : {uint64_t{64}, uint64_t{1} << 20, uint64_t{3} << 20, (uint64_t{8} << 20) + 5}) {
    CAPTURE(bytes);
    for (const unsigned value : {0u, 7u}) {
      Memory memory = allocate(device, bytes);
      fill(stream, span(memory, 0, bytes), value);
      drain(stream);
      memory.reset();
      const Memory next = allocate(device, bytes);
      const auto found = download(stream, span(next, bytes / 2, bytes / 2));
      CHECK(std::count(found.begin(), found.end(), value) < static_cast<int64_t>(found.size()));
      if (value != 0) CHECK(std::count(found.begin(), found.end(), value) == 0);
    }
  }
}

TEST_CASE("memory: a device address is good inside one allocation, and nowhere else") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 1000);
  Memory gone = allocate(device, 1024);
  const uint64_t at = address(memory), freed = address(gone);
  gone.reset();
  fill(stream, at_address(at + 24, 976), 9);
  CHECK(download(stream, span(memory, 24, 976)) == std::vector<unsigned char>(976, 9));
  CHECK(try_fill(stream, at_address(at + 24, 977), 9).code == TN_INVALID);
  CHECK(try_fill(stream, at_address(freed, 1), 9).code == TN_INVALID);
  CHECK(try_fill(stream, at_address(64, 1), 9).code == TN_INVALID);
}

TEST_CASE("memory: a device address passed as a host address is refused, not followed") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory a = allocate(device, 64), b = allocate(device, 64);
  const Outcome said = try_copy(stream, span(b, 0, 64), at_address(address(a), 64, TN_SPACE_HOST_ADDRESS));
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("TN_SPACE_DEVICE_ADDRESS"));
}

TEST_CASE("memory: more than there is is refused with the figures, and freeing helps") {
  const World world(Options{{"memory_mib", "1"}});
  const Device device = open_device();
  Memory most = allocate(device, 1 << 20), more;
  const Outcome said = try_allocate(device, 1, more);
  CHECK(said.code == TN_NO_MEMORY);
  CHECK(said.says("asked for 1 bytes; 0 of 1048576"));
  most.reset();
  CHECK(figures(device).used_here_bytes == 0);
  CHECK(try_allocate(device, 1 << 20, more).ok());
}

TEST_CASE("memory: gaps between blocks join again when their neighbours go") {
  const World world(Options{{"memory_mib", "1"}});
  const Device device = open_device();
  std::vector<Memory> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(device, 256 << 10));
  Memory whole;
  for (const size_t i : {2, 0, 3, 1}) {
    CHECK(try_allocate(device, 1 << 20, whole).code == TN_NO_MEMORY);
    blocks[i].reset();
  }
  CHECK(try_allocate(device, 1 << 20, whole).ok());
}

TEST_CASE("memory: a kind that a profile lacks is refused in words") {
  const World world(Options{{"profile", "ipu"}});
  const Device device = open_device();
  Memory memory;
  const Outcome said = try_allocate(device, 64, memory, TN_MEMORY_HOST);
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK(said.says("profile 'ipu' has no pinned host memory"));
}

TEST_CASE("memory: another device's memory is for its peers only") {
  for (const bool peer : {true, false}) {
    CAPTURE(peer);
    const World world(Options{{"devices", "2"}, {"peer", peer ? "true" : "false"}});
    const Device first = open_device(0), second = open_device(1);
    const Memory here = allocate(first, 64), there = allocate(second, 64);
    const Stream stream = make_stream(first);
    const Outcome said = try_copy(stream, span(here, 0, 64), span(there, 0, 64));
    CHECK(said.code == (peer ? TN_OK : TN_INVALID));
    CHECK((plugin().device->peer != nullptr) == peer);
    drain(stream);
  }
}
