// SPDX-License-Identifier: Apache-2.0
// own_refused_test.cpp: a plugin whose own communicators do not join these ranks: CUDA's, which join sixteen threads at most.
#include "ranks.hpp"

#include <doctest/doctest.h>

#include <mutex>

using namespace comm_test;

namespace {

constexpr uint32_t too_many = 17;

// Each rank brings its number and one.
Status sum(const Device& device, const Store& store, uint32_t rank, uint32_t size) {
  Rank here = TN_TRY(join(device, store, rank, size));
  const auto one = static_cast<float>(rank + 1);
  std::vector<float> numbers(1000, one);
  const Buffer buffer = TN_TRY(here.buffer(numbers.size() * sizeof(float)));
  TN_TRY(here.stream.upload(buffer, numbers));
  TN_TRY(here.comm.all_reduce(here.stream, buffer, buffer, f32));
  TN_TRY(here.stream.download(numbers, buffer));
  TN_TRY(here.stream.sync());
  const auto expected = static_cast<float>(size * (size + 1)) / 2;
  for (const float found : numbers) {
    if (found != expected)
      return {TN_INTERNAL, "rank " + std::to_string(rank) + " has the sum " + std::to_string(found)};
  }
  return {};
}

}  // namespace

TEST_CASE("staged: ranks that a plugin's own communicators refuse are staged, and the log says why") {
  tenon::test::HeardLog log;
  auto tenon =
      Runtime::open(log.of(tenon::test::built_plugins({{"cpu.threads", "1"}, {"cuda.nccl", "off"}})));
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  auto device = tenon->device("cuda");
  REQUIRE_MESSAGE(device.ok(), device.message());
  for (const uint32_t size : {2u, too_many}) {
    const Store store = Store::in_process();
    for (const Status& outcome :
         as_threads(size, [&](uint32_t rank) { return sum(*device, store, rank, size); }))
      CHECK_MESSAGE(outcome.ok(), outcome.message());
    CHECK((log.count("is staged on the host: ") > 0) == (size == too_many));
  }
}
