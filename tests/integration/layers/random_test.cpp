// SPDX-License-Identifier: Apache-2.0
// random_test.cpp: right programs of many streams, buffers that come and go, and a pool that reuses them: not one finding.
#include "integration/device.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"

#include <bit>
#include <memory>
#include <random>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr uint64_t elements = 256, block = elements * sizeof(float);

// A buffer with the points after which it may be read, and written.
struct Shared {
  Buffer buffer;
  float value = 0;
  bool filled = false;
  std::vector<Point> writes, reads;
};

class Program {
 public:
  Program(Device& device, uint64_t seed)
      : device_(device), random_(seed), kernel_(must(device.compile(add3(elements)))) {
    for (int i = 0; i < 4; ++i)
      streams_.push_back(must(device.stream({.name = std::string(1, static_cast<char>('a' + i))})));
  }
  void step() {
    switch (random_() % 5) {
      case 0:
        return make();
      case 1:
        return drop();
      case 2:
        return fill();
      case 3:
        return add();
      default:
        return check();
    }
  }

 private:
  Stream& stream() { return streams_[random_() % streams_.size()]; }
  Shared* pick() { return buffers_.empty() ? nullptr : buffers_[random_() % buffers_.size()].get(); }

  // The memory may still be in use by what its stream did before: its first users wait for that.
  void make() {
    Stream& home = stream();
    auto made = std::make_unique<Shared>();
    made->buffer = must(device_.allocate(home, block));
    made->writes.push_back(must(home.record()));
    buffers_.push_back(std::move(made));
  }
  void drop() {
    if (buffers_.size() < 2) return;
    std::swap(buffers_[random_() % buffers_.size()], buffers_.back());
    buffers_.pop_back();
  }
  void before_read(Stream& on, Shared& shared) {
    for (const Point& point : shared.writes) must(on.wait(point));
  }
  void before_write(Stream& on, Shared& shared) {
    before_read(on, shared);
    for (const Point& point : shared.reads) must(on.wait(point));
  }
  void after(Stream& on, Shared& shared, bool write) {
    const Point point = must(on.record());
    if (write) shared.writes.clear(), shared.reads.clear();
    (write ? shared.writes : shared.reads).push_back(point);
    must(shared.buffer.used_on(on));
  }
  void fill() {
    Shared* to = pick();
    if (to == nullptr) return;
    Stream& on = stream();
    before_write(on, *to);
    to->value = static_cast<float>(random_() % 100);
    to->filled = true;
    must(on.fill(to->buffer, std::bit_cast<uint32_t>(to->value), 4));
    after(on, *to, true);
  }
  void add() {
    Shared* from[3] = {pick(), pick(), pick()};
    Shared* to = pick();
    for (const Shared* each : from) {
      if (each == nullptr || each == to || !each->filled) return;
    }
    Stream& on = stream();
    for (Shared* each : from) before_read(on, *each);
    before_write(on, *to);
    must(kernel_.run(on, {from[0]->buffer, from[1]->buffer, from[2]->buffer, to->buffer}));
    to->value = from[0]->value + from[1]->value + from[2]->value;
    to->filled = true;
    for (Shared* each : from) after(on, *each, false);
    after(on, *to, true);
  }
  void check() {
    Shared* from = pick();
    if (from == nullptr || !from->filled) return;
    Stream& on = stream();
    std::vector<float> out(elements);
    before_read(on, *from);
    must(on.download(out, from->buffer));
    after(on, *from, false);
    must(on.sync());
    CHECK(out == std::vector<float>(elements, from->value));
  }

  Device& device_;
  std::mt19937_64 random_;
  Kernel kernel_;
  std::vector<Stream> streams_;
  std::vector<std::unique_ptr<Shared>> buffers_;
};

}  // namespace

TEST_CASE("layers: validate accuses no right program of streams, waits and pooled buffers") {
  const uint64_t first = seed(21);
  const int programs = full_or("programs", 20, 500);
  Runtime runtime = open({"validate"});
  Device device = target(runtime);
  for (int i = 0; i < programs; ++i) {
    CAPTURE(i);
    Program program(device, first + static_cast<uint64_t>(i));
    for (int step = 0; step < 200; ++step) program.step();
    REQUIRE(all_reports(runtime) == "");
  }
}
