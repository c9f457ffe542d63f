// SPDX-License-Identifier: Apache-2.0
// order_test.cpp: what several streams and threads of one device promise each other: nothing but what was waited for.
#include "integration/device.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <thread>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr uint64_t slot = 512;

// Buffers that all streams use, and what they must hold: every step waits for the last one that touched its buffers.
class Program {
 public:
  Program(Device& device, uint64_t seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) streams_.push_back(must(device.stream()));
    for (int i = 0; i < 6; ++i) {
      slots_.push_back({.buffer = must(device.allocate(streams_[0], slot)), .expected = {}, .last = {}});
      write(slots_.back(), streams_[0], [&](Stream& on, Slot& to) {
        to.expected.assign(slot, 0);
        return on.fill(to.buffer);
      });
    }
  }
  void step() {
    Slot &to = any(slots_), &from = any(slots_);
    Stream& on = any(streams_);
    const auto value = static_cast<uint8_t>(random_());
    if (random_() % 3 == 0) {
      write(to, on, [&](Stream& stream, Slot& it) {
        it.expected.assign(slot, value);
        return stream.upload(it.buffer, it.expected);  // the host's bytes may change at once
      });
    } else if (random_() % 2 == 0 || &to == &from) {
      const uint64_t at = random_() % slot;
      write(to, on, [&](Stream& stream, Slot& it) {
        std::fill(it.expected.begin() + static_cast<std::ptrdiff_t>(at), it.expected.end(), value);
        return stream.fill(must(it.buffer.slice(at, slot - at)), value);
      });
    } else {
      must(on.wait(from.last));
      write(to, on, [&](Stream& stream, Slot& it) {
        it.expected = from.expected;
        return stream.copy(it.buffer, from.buffer);
      });
      from.last = to.last;  // whoever overwrites it waits for this copy
    }
  }
  void check() {
    for (Slot& each : slots_) {
      Stream& on = any(streams_);
      std::vector<uint8_t> out(slot);
      must(on.wait(each.last));
      must(on.download(out, each.buffer));
      must(on.sync());
      CHECK((out == each.expected));
    }
  }

 private:
  struct Slot {
    Buffer buffer;
    std::vector<uint8_t> expected;
    Point last;
  };
  template <class T>
  typename T::reference any(T& list) {
    return list[random_() % list.size()];
  }
  template <class Write>
  void write(Slot& to, Stream& on, const Write& body) {
    must(on.wait(to.last));
    must(body(on, to));
    to.last = must(on.record());
    must(to.buffer.used_on(on));
  }

  std::mt19937_64 random_;
  std::vector<Stream> streams_;
  std::deque<Slot> slots_;
};

}  // namespace

TEST_CASE(
    "order: programs of many streams that wait for what they use compute the same as one that runs in "
    "order") {
  const uint64_t first = seed(31);
  const int programs = full_or("programs", 10, 300);
  Runtime runtime = open({}, say_nothing, {{"sim.seed", std::to_string(first)}});
  Device device = target(runtime);
  for (int i = 0; i < programs; ++i) {
    CAPTURE(i);
    Program program(device, first + static_cast<uint64_t>(i));
    for (int step = 0; step < 200; ++step) program.step();
    program.check();
  }
}

TEST_CASE("order: a chain through many streams arrives in order") {
  Runtime runtime = open();
  Device device = target(runtime);
  std::vector<Stream> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(must(device.stream()));
  const Buffer chain = must(device.allocate(streams[0], 256 * sizeof(uint32_t)));
  Point last = must(streams[0].record());
  for (uint32_t i = 0; i + 1 < 256; ++i) {
    Stream& on = streams[i % streams.size()];
    must(on.wait(last));
    if (i == 0) must(on.fill(chain, 0xABCD, 4));
    must(on.copy(must(chain.slice((i + 1) * 4, 4)), must(chain.slice(i * 4, 4))));
    must(on.fill(must(chain.slice(i * 4, 4)), i, 4));
    last = must(on.record());
  }
  std::vector<uint32_t> out(256);
  must(streams[3].wait(last));
  must(streams[3].download(out, chain));
  must(streams[3].sync());
  for (uint32_t i = 0; i < 255; ++i) CHECK(out[i] == i);
  CHECK(out[255] == 0xABCD);
}

TEST_CASE("order: threads with streams of their own do not disturb each other") {
  Runtime runtime = open();
  Device device = target(runtime);
  const int rounds = full_or("rounds", 30, 1000);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t me = 0; me < wrong.size(); ++me) {
    threads.emplace_back([&, me] {
      auto stream = device.stream();
      for (int round = 0; round < rounds && stream.ok(); ++round) {
        const uint64_t bytes = 1000 * (me + 1) + static_cast<uint64_t>(round);
        auto buffer = device.allocate(*stream, bytes);
        std::vector<uint8_t> in(bytes, static_cast<uint8_t>(me * 50 + static_cast<size_t>(round))),
            out(bytes);
        const bool done = buffer.ok() && stream->upload(*buffer, in).ok() &&
                          stream->download(out, *buffer).ok() && stream->sync().ok();
        wrong[me] += done && in == out ? 0 : 1;
      }
      wrong[me] += stream.ok() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK((wrong == std::vector<int>(4, 0)));
}
