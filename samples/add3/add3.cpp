// SPDX-License-Identifier: Apache-2.0
// add3: d = a + b + c as one fragment of two nodes, so that the intermediate a + b is never written to memory.
//
// Invariant: both ways are compared with the host's own sum, bit for bit, before any time is printed.
#include <tenon/tenon.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

constexpr int64_t count = 8 << 20;  // 32 MiB an array: past most caches
constexpr uint64_t bytes = count * sizeof(float);
constexpr int rounds = 21;
const tenon::TensorSpec vector{tenon::f32, {count}};

tenon::Result<tenon::Fragment> add2() {
  tenon::FragmentBuilder f("add2");
  const auto a = f.input(vector), b = f.input(vector);
  f.output(f.node(tenon::Op::add, {a, b}, vector));
  return f.build();
}

tenon::Result<tenon::Fragment> add3() {
  tenon::FragmentBuilder f("add3");
  const auto a = f.input(vector), b = f.input(vector), c = f.input(vector);
  const auto ab = f.node(tenon::Op::add, {a, b}, vector);
  f.output(f.node(tenon::Op::add, {ab, c}, vector));
  return f.build();
}

// What each way computes, on the host and on the device.
struct Data {
  std::vector<float> expected = std::vector<float>(count);
  tenon::Buffer a, b, c, ab, one, two;  // `one` launch writes here, `two` launches there
};

tenon::Result<tenon::Buffer> uploaded(tenon::Device& device, tenon::Stream& stream,
                                      std::span<const float> host) {
  auto buffer = TN_TRY(device.allocate(stream, bytes));
  TN_TRY(stream.upload(buffer, host));
  return buffer;
}

tenon::Result<Data> prepare(tenon::Device& device, tenon::Stream& stream) {
  Data data;
  std::vector<float> a(count), b(count), c(count);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 1009) / 7;
    b[i] = static_cast<float>(i % 2003) / 11;
    c[i] = static_cast<float>(i % 4001) / 13;
    data.expected[i] = a[i] + b[i] + c[i];
  }
  data.a = TN_TRY(uploaded(device, stream, a));
  data.b = TN_TRY(uploaded(device, stream, b));
  data.c = TN_TRY(uploaded(device, stream, c));
  data.ab = TN_TRY(device.allocate(stream, bytes));
  data.one = TN_TRY(device.allocate(stream, bytes));
  data.two = TN_TRY(device.allocate(stream, bytes));
  return data;
}

tenon::Status check(tenon::Stream& stream, const tenon::Buffer& buffer, const std::vector<float>& expected) {
  std::vector<float> host(count);
  TN_TRY(stream.download(host, buffer));
  TN_TRY(stream.sync());
  if (host == expected) return {};
  return {TN_INTERNAL, "the device's sum differs from the host's"};
}

// Milliseconds until the stream has done what `enqueue` puts on it.
template <class Enqueue>
tenon::Result<double> timed(tenon::Stream& stream, const Enqueue& enqueue) {
  const auto start = std::chrono::steady_clock::now();
  TN_TRY(enqueue());
  TN_TRY(stream.sync());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Kernels {
  tenon::Kernel fused, single;
};

// Asks before it compiles: the answer says how `device` would run the fused form, and why.
tenon::Result<Kernels> compile(tenon::Device& device) {
  const auto sum3 = TN_TRY(add3());
  const auto sum2 = TN_TRY(add2());
  const auto support = TN_TRY(device.supports(sum3));
  std::printf("%s, a + b + c as one fragment: %s%s%s\n", device.name().c_str(),
              tenon::name(support.verdict).data(), support.reason.empty() ? "" : ": ",
              support.reason.c_str());
  Kernels kernels;
  kernels.fused = TN_TRY(device.compile(sum3));
  kernels.single = TN_TRY(device.compile(sum2));
  std::printf("engine: %s\n", kernels.fused.engine().c_str());
  return kernels;
}

tenon::Status run(const char* device_name) {
  auto tenon = TN_TRY(tenon::Runtime::open());
  auto device = TN_TRY(tenon.device(device_name));
  auto stream = TN_TRY(device.stream({.name = "compute"}));
  const auto kernels = TN_TRY(compile(device));
  const auto data = TN_TRY(prepare(device, stream));

  const auto one_launch = [&] { return kernels.fused.run(stream, {data.a, data.b, data.c, data.one}); };
  const auto two_launches = [&]() -> tenon::Status {
    TN_TRY(kernels.single.run(stream, {data.a, data.b, data.ab}));
    return kernels.single.run(stream, {data.ab, data.c, data.two});
  };
  std::vector<double> one_ms, two_ms;
  for (int round = 0; round < rounds; ++round) {  // interleaved: a slow moment of the machine hits both
    one_ms.push_back(TN_TRY(timed(stream, one_launch)));
    two_ms.push_back(TN_TRY(timed(stream, two_launches)));
  }
  TN_TRY(check(stream, data.one, data.expected));
  TN_TRY(check(stream, data.two, data.expected));

  const double mb = static_cast<double>(bytes) / 1e6;
  std::printf("result: right both ways, bit for bit\n");
  std::printf("one launch:   %7.2f ms, %4.0f MB moved\n", median(one_ms), 4 * mb);
  std::printf("two launches: %7.2f ms, %4.0f MB moved\n", median(two_ms), 6 * mb);
  std::printf("fused / single speed: %.2f (medians of %d interleaved runs)\n",
              median(two_ms) / median(one_ms), rounds);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const tenon::Status status = run(argc > 1 ? argv[1] : "cpu");
  if (!status.ok()) std::fprintf(stderr, "add3: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
