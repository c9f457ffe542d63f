// SPDX-License-Identifier: Apache-2.0
// kernels_test.cpp: fragments through the public API: compiled, cached, refused in words, launched on many streams.
#include "integration/device.hpp"

#include <numeric>

using namespace tenon;
using namespace tenon::test;

namespace {

std::vector<float> sum_of(const std::vector<float>& a, const std::vector<float>& b,
                          const std::vector<float>& c) {
  std::vector<float> out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] + b[i] + c[i];
  return out;
}

std::vector<float> counting(size_t n, float first) {
  std::vector<float> out(n);
  std::iota(out.begin(), out.end(), first);
  return out;
}

// d = a + b + c, with everything on the device and back.
std::vector<float> run_add3(Device& device, Stream& stream, const Kernel& kernel, const std::vector<float>& a,
                            const std::vector<float>& b, const std::vector<float>& c) {
  const uint64_t bytes = a.size() * sizeof(float);
  Buffer in[3] = {must(device.allocate(stream, bytes)), must(device.allocate(stream, bytes)),
                  must(device.allocate(stream, bytes))};
  const Buffer out = must(device.allocate(stream, bytes));
  must(stream.upload(in[0], a));
  must(stream.upload(in[1], b));
  must(stream.upload(in[2], c));
  must(kernel.run(stream, {in[0], in[1], in[2], out}));
  std::vector<float> result(a.size());
  must(stream.download(result, out));
  must(stream.sync());
  return result;
}

// One op alone: what a device of whole graphs refuses.
Fragment single_add(int64_t n) {
  const TensorSpec spec{f32, {n}};
  FragmentBuilder f("add");
  const auto a = f.input(spec), b = f.input(spec);
  f.output(f.node(Op::add, {a, b}, spec));
  return must(f.build());
}

}  // namespace

TEST_CASE("kernels: a fragment computes what the host computes, at every size") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  for (const size_t n : {0, 1, 7, 1024, 100'003}) {
    CAPTURE(n);
    const Kernel kernel = must(device.compile(add3(static_cast<int64_t>(n))));
    const auto a = counting(n, 1), b = counting(n, 100), c = counting(n, -7);
    CHECK((run_add3(device, stream, kernel, a, b, c) == sum_of(a, b, c)));
  }
}

TEST_CASE("kernels: an equal fragment is the same kernel") {
  Runtime runtime = open();
  Device device = target(runtime);
  const Kernel one = must(device.compile(add3(64))), other = must(device.compile(add3(64)));
  CHECK(device.kernel_cache_stats().hits == 1);
  CHECK(device.kernel_cache_stats().kernels == 1);
}

TEST_CASE("kernels: one kernel is in flight on many streams, each with a workspace of its own") {
  Runtime runtime = open();
  Device device = target(runtime);
  constexpr size_t n = 1000, count = 4;
  const Kernel kernel = must(device.compile(add3(n)));
  std::vector<Stream> streams;
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < count; ++i) {
    streams.push_back(must(device.stream()));
    buffers.push_back(must(device.allocate(streams[i], 2 * n * sizeof(float))));
  }
  const auto half = [&](size_t i, uint64_t which) {
    return must(buffers[i].slice(which * n * sizeof(float), n * sizeof(float)));
  };
  for (size_t i = 0; i < count; ++i) must(streams[i].upload(half(i, 0), std::vector<float>(n, float(i) + 1)));
  // Each launch triples: from one half to the other, and back.
  for (int step = 0; step < 8; ++step) {
    for (size_t i = 0; i < count; ++i) {
      const tn_span from = half(i, step % 2), to = half(i, (step + 1) % 2);
      must(kernel.run(streams[i], {from, from, from, to}));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    std::vector<float> out(n);
    must(streams[i].download(out, half(i, 0)));
    must(streams[i].sync());
    CHECK((out == std::vector<float>(n, 6561.0f * (float(i) + 1))));
  }
}

TEST_CASE("kernels: what a device does not compute it refuses with its reason, when asked and when told") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  for (const Fragment& fragment : {add3(16, f64), single_add(16)}) {
    CAPTURE(fragment.name());
    const Support support = must(device.supports(fragment));
    const auto kernel = device.compile(fragment);
    if (support.verdict != Verdict::no) {
      CHECK_MESSAGE(kernel.ok(), kernel.message());
      continue;
    }
    CHECK(!support.reason.empty());
    REQUIRE(kernel.code() == TN_UNSUPPORTED);
    CHECK_HAS(std::string(kernel.message()), support.reason);
  }
}

TEST_CASE("kernels: a workspace beyond the limit is refused, and one at the limit is not") {
  Runtime runtime = open();
  Device device = target(runtime);
  const uint64_t needs = must(device.compile(add3(32))).workspace_bytes();
  if (needs == 0)
    TENON_SKIP("workspace", device_under_test().label() + " needs no workspace for two additions");
  CHECK(device.compile(add3(33), {.workspace_limit = needs / 2}).code() == TN_UNSUPPORTED);
  CHECK(device.compile(add3(34), {.workspace_limit = 2 * needs}).ok());
}

TEST_CASE("kernels: a launch with wrong bindings is refused, and the stream stays good") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const Kernel kernel = must(device.compile(add3(64)));
  const Buffer buffer = must(device.allocate(stream, 64 * sizeof(float)));
  CHECK(kernel.run(stream, {buffer, buffer}).code() == TN_INVALID);
  const auto a = counting(64, 0);
  CHECK((run_add3(device, stream, kernel, a, a, a) == sum_of(a, a, a)));
}
