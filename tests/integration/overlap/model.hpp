// SPDX-License-Identifier: Apache-2.0
// model.hpp: parameters, what each rank finds as their gradients, and the averages that one all-reduce per tensor gives.
//
// Invariant: the reference uses the same communicator as what it is compared with, and nothing of core/overlap.
#pragma once

#include "integration/comm/ranks.hpp"
#include "support/full.hpp"

#include <tenon/gradient_sync.hpp>

#include <doctest/doctest.h>

#include <random>

namespace overlap_test {

using namespace comm_test;

inline Device open_cpu() {
  Result<Runtime> tenon = runtime();
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  Result<Device> device = tenon->device("cpu");
  REQUIRE_MESSAGE(device.ok(), device.message());
  return *device;
}

// Runs body(rank) for ranks that have joined on `device`, and fails the test for each that fails.
inline void together(Device device, uint32_t size, const std::function<Status(Rank&)>& body,
                     CommOptions options = {}) {
  const Store store = Store::in_process();
  const auto outcomes = as_threads(size, [&](uint32_t r) -> Status {
    Rank rank = TN_TRY(join(device, store, r, size, options));
    return body(rank);
  });
  for (const Status& outcome : outcomes) CHECK_MESSAGE(outcome.ok(), outcome.message());
}
inline void together(uint32_t size, const std::function<Status(Rank&)>& body, CommOptions options = {}) {
  together(open_cpu(), size, body, std::move(options));
}

// Numbers of ranks to go through. Under ThreadSanitizer a short run has one of them: others bring more threads, and no other code.
inline std::vector<uint32_t> crowds() {
  if (tenon::test::under_tsan && !tenon::test::full_run()) return {3};
  return {2, 3, 4};
}

template <typename What>
Status expect(bool well, const What& what) {
  return well ? Status() : Status(TN_INTERNAL, comm_test::told(what));
}

// A target on which small buckets pay, so that small models have several.
inline CommTarget eager_target(double latency_ns = 10) {
  CommTarget target;
  target.all_reduce.push_back({Route::flat, CostTable::linear(latency_ns, 1)});
  return target;
}

// The same for sharded mode.
inline CommTarget eager_shards(double latency_ns = 10) {
  CommTarget target;
  target.reduce_scatter = target.all_gather = CostTable::linear(latency_ns, 0.5);
  return target;
}

inline std::vector<Gradient> parameters(const std::vector<uint64_t>& elements, DType dtype = f32) {
  std::vector<Gradient> out;
  for (size_t i = 0; i < elements.size(); ++i)
    out.push_back({.name = "fc" + std::to_string(i) + ".weight", .dtype = dtype, .elements = elements[i]});
  return out;
}

// The same, ready one after the other from the last on.
inline std::vector<Gradient> arriving(std::vector<Gradient> gradients, double gap_ns = 1'000) {
  for (size_t i = 0; i < gradients.size(); ++i)
    gradients[i].ready_ns = static_cast<double>(gradients.size() - i) * gap_ns;
  return gradients;
}

inline float number(DType dtype, const std::byte* at) {
  if (dtype == f16) return author::widen(got<author::F16>(at));
  if (dtype == bf16) return author::widen(got<author::BF16>(at));
  return got<float>(at);
}

// Numbers of no special kind: their sums depend on the order of addition.
inline std::vector<std::byte> random_gradient(std::mt19937_64& random, DType dtype, uint64_t elements) {
  std::vector<std::byte> out(bytes(dtype, elements));
  std::uniform_real_distribution<double> spread(-1, 1);
  for (uint64_t i = 0; i < elements; ++i) write(dtype, &out[i * bytes(dtype, 1)], spread(random));
  return out;
}

// sums / by, rounded once.
inline void divide(DType dtype, std::vector<std::byte>& sums, float by) {
  const uint64_t width = bytes(dtype, 1);
  for (uint64_t at = 0; at < sums.size(); at += width) {
    if (dtype == f64)
      put(&sums[at], got<double>(&sums[at]) / static_cast<double>(by));
    else
      write(dtype, &sums[at], static_cast<double>(number(dtype, &sums[at]) / by));
  }
}

// What one all-reduce of `own` alone gives, over `by`.
inline Result<std::vector<std::byte>> reference(Rank& r, DType dtype, const std::vector<std::byte>& own,
                                                float by) {
  const Buffer buffer = TN_TRY(r.uploaded(own));
  TN_TRY(r.comm.all_reduce(r.stream, buffer, buffer, dtype));
  std::vector<std::byte> out(own.size());
  if (!out.empty()) TN_TRY(r.stream.download(out, buffer));
  TN_TRY(r.stream.sync());
  divide(dtype, out, by);
  return out;
}

// An order in which gradients become ready on one rank.
inline std::vector<uint32_t> some_order(std::mt19937_64& random, size_t count) {
  std::vector<uint32_t> out(count);
  for (uint32_t i = 0; i < count; ++i) out[i] = i;
  std::shuffle(out.begin(), out.end(), random);
  return out;
}

}  // namespace overlap_test
