// SPDX-License-Identifier: Apache-2.0
// lent_threads_test.cpp: the CPU plugin computes on the program's own threads where it is lent some.
//
// A plugin keeps the services of the runtime that opened it first, so this is one case in a program of its own.
#include "integration/device.hpp"

#include <atomic>
#include <thread>

using namespace tenon;
using namespace tenon::test;

namespace {

// Cuts the range in two for threads of its own, and counts.
struct Lender {
  std::atomic<uint64_t> calls{0}, done{0};

  ParallelFor service() {
    return [this](uint64_t count, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& piece) {
      ++calls;
      const uint64_t half = std::max(grain, count / 2);
      std::thread first([&] { piece(0, half); });
      if (half < count) std::thread([&] { piece(half, count); }).join();
      first.join();
      done += count;
    };
  }
};

Runtime open_with(Lender& lender) {
  RuntimeOptions options = built_plugins({{"cpu.threads", "2"}});
  options.parallel_for = lender.service();
  return must(Runtime::open(std::move(options)));
}

// Whether d = a + b + c is right, of enough elements to be shared.
bool adds(Device& device) {
  constexpr int64_t n = 1 << 20;
  Stream stream = must(device.stream());
  const Kernel kernel = must(device.compile(add3(n)));
  std::vector<float> in(n), out(n);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 1000);
  const uint64_t bytes = in.size() * sizeof(float);
  const Buffer a = must(device.allocate(stream, bytes)), d = must(device.allocate(stream, bytes));
  must(stream.upload(a, in));
  must(kernel.run(stream, {a, a, a, d}));
  must(stream.download(out, d));
  must(stream.sync());
  for (size_t i = 0; i < in.size(); ++i)
    if (out[i] != 3 * in[i]) return false;
  return true;
}

}  // namespace

TEST_CASE("lent threads: the CPU plugin uses those of the runtime that opened it, as long as that lives") {
  Lender one, two;
  Runtime second;
  {
    Runtime first = open_with(one);
    Device device = must(first.device("cpu"));
    CHECK(adds(device));
    const uint64_t calls = one.calls;
    CHECK(calls > 0);
    CHECK(one.done >= 1 << 20);
    second = open_with(two);
    Device other = must(second.device("cpu"));
    CHECK(adds(other));
    CHECK(one.calls > calls);
  }
  const uint64_t calls = one.calls;
  Device device = must(second.device("cpu"));
  CHECK(adds(device));
  CHECK(one.calls == calls);
  CHECK(two.calls == 0);
}
