// SPDX-License-Identifier: Apache-2.0
// trouble_test.cpp: trouble on purpose: it happens where it was ordered, once, and is told as the contract says.
#include "world.hpp"

#include <chrono>

using namespace sim_test;

namespace {

// The bytes of y = x after three launches, the corrupt one among them.
std::vector<unsigned char> copies(const std::string& seed, const std::string& corrupt_at) {
  const World world(Options{{"seed", seed}, {"corrupt_at", corrupt_at}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  FragmentBuilder f("identity");
  const uint32_t x = f.input(TN_DTYPE_u8, {64});
  f.node(TN_OP_identity, {x}, {f.output(TN_DTYPE_u8, {64})});
  const Kernel kernel = compile(device, f.fragment());
  const Memory memory = allocate(device, 64 * 4);
  fill(stream, span(memory, 0, 64), 0);
  for (uint64_t i = 1; i <= 3; ++i) {
    const tn_span bindings[] = {span(memory, 0, 64), span(memory, i * 64, 64)};
    launch(kernel, stream, bindings, {});
  }
  return download(stream, span(memory, 64, 64 * 3));
}

// How many bits are set in launch `i`'s output.
int wrong_bits(const std::vector<unsigned char>& all, size_t i) {
  int bits = 0;
  for (size_t k = 0; k < 64; ++k) bits += __builtin_popcount(all[i * 64 + k]);
  return bits;
}

std::chrono::nanoseconds time_of_fills(const Options& options) {
  const World world(options);
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 8);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 40; ++i) fill(stream, span(memory, 0, 8), 1);
  drain(stream);
  return std::chrono::steady_clock::now() - start;
}

}  // namespace

TEST_CASE("trouble: the n-th allocation fails, and no other") {
  const World world(Options{{"oom_at", "3"}});
  const Device device = open_device();
  std::vector<Memory> kept;
  for (int i = 1; i <= 5; ++i) {
    Memory memory;
    const Outcome said = try_allocate(device, 64, memory);
    CHECK(said.code == (i == 3 ? TN_NO_MEMORY : TN_OK));
    if (i == 3) CHECK(said.says("sim.oom_at"));
    kept.push_back(std::move(memory));
  }
}

TEST_CASE("trouble: the device is lost at the n-th command") {
  const World world(Options{{"lost_at", "4"}});
  Device device = open_device();
  Stream stream = make_stream(device), other = make_stream(device);
  Memory memory = allocate(device, 64);
  uint64_t good = 0, bad = 0;
  for (int i = 1; i <= 5; ++i) {
    fill(stream, span(memory, 0, 64), 1);
    bad = record(stream);
    if (i == 3) good = bad;
  }
  const Outcome said = try_sync(stream, bad);
  CHECK(said.code == TN_DEVICE_LOST);
  CHECK((said.error.flags & TN_ERROR_ASYNC) != 0);
  CHECK(said.says("at its command 4"));
  CHECK(try_sync(stream, good).ok());  // reached before
  // Everything else of the device is lost with it; only destroying and freeing is legal.
  CHECK(try_fill(other, span(memory, 0, 64), 1).code == TN_DEVICE_LOST);
  Memory more;
  CHECK(try_allocate(device, 64, more).code == TN_DEVICE_LOST);
  Stream third;
  CHECK(try_stream(device, third).code == TN_DEVICE_LOST);
  Device again;
  CHECK(try_open(again).code == TN_DEVICE_LOST);
  stream.reset();
  other.reset();
  memory.reset();
  device.reset();
  CHECK(try_open(again).ok());  // opened anew, it is another device
}

TEST_CASE("trouble: who waits for a lost stream goes on, and the stream tells what happened") {
  const World world(Options{{"lost_at", "1"}});
  const Device device = open_device();
  tn_stream* const stream = make_stream(device).release();
  const Stream consumer = make_stream(device);
  const Memory memory = allocate(device, 64);
  fill(stream, span(memory, 0, 64), 1);
  wait(consumer, stream, record(stream));
  CHECK(try_sync(consumer, record(consumer)).code == TN_DEVICE_LOST);
  const Outcome said =
      outcome_of([&](tn_error* e) { return plugin().stream->destroy(stream, TN_DESTROY_COMPLETE, e); });
  CHECK(said.code == TN_DEVICE_LOST);  // nobody had been told
}

TEST_CASE("trouble: one bit of the n-th launch's output is wrong") {
  const auto clean = copies("1", "0"), corrupt = copies("1", "2");
  for (size_t i = 0; i < 3; ++i) {
    CHECK(wrong_bits(clean, i) == 0);
    CHECK(wrong_bits(corrupt, i) == (i == 1 ? 1 : 0));
  }
  CHECK(corrupt == copies("1", "2"));
  CHECK(corrupt != copies("5", "2"));
}

TEST_CASE("trouble: a straggler takes its time, and arrives") {
  const auto slow = time_of_fills({{"straggler_in", "2"}, {"straggler_us", "2000"}});
  CHECK(slow > std::chrono::milliseconds(10));  // about 20 of 40 commands take 2 ms
}

TEST_CASE("trouble: a slow link makes copies from and to the host slow") {
  const World world(Options{{"link_mib_per_s", "64"}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 1 << 20);
  const auto start = std::chrono::steady_clock::now();
  CHECK(download(stream, span(memory, 0, 1 << 20)).size() == 1 << 20);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(15));
}

TEST_CASE("trouble: a host call that throws poisons its own stream alone") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device), other = make_stream(device);
  must([&](tn_error* e) {
    return plugin().stream->host_call(
        stream, [](void*) { throw std::runtime_error("thrown on purpose"); }, nullptr, e);
  });
  const Outcome said = try_sync(stream, record(stream));
  CHECK(said.code == TN_INTERNAL);
  CHECK(said.says("thrown on purpose"));
  drain(other);
}
