// SPDX-License-Identifier: Apache-2.0
// together.hpp: a device, and ranks as threads that have joined one communicator on it.
#pragma once

#include "ranks.hpp"

#include <doctest/doctest.h>

namespace comm_test {

struct World {
  std::string device = "cpu";
  std::map<std::string, std::string> options{};  // of the runtime
  CommOptions comm{};
};

// Opened once: a runtime reads all its plugins, which takes long under a sanitizer.
inline Device open(const World& world) {
  Result<Runtime> tenon = runtime(world.options);
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  Result<Device> device = tenon->device(world.device);
  REQUIRE_MESSAGE(device.ok(), device.message());
  return *device;
}

// Runs body(rank) for ranks that have joined on a store of their own; what they returned.
inline std::vector<Status> outcomes(const Device& device, const CommOptions& options, uint32_t size,
                                    const std::function<Status(Rank&)>& body) {
  const Store store = Store::in_process();
  return as_threads(size, [&](uint32_t r) -> Status {
    Rank rank = TN_TRY(join(device, store, r, size, options));
    TN_TRY(body(rank));
    return rank.stream.sync();
  });
}

// The same, where each rank that fails is a failure.
inline void together(const Device& device, uint32_t size, const std::function<Status(Rank&)>& body) {
  for (const Status& outcome : outcomes(device, {}, size, body))
    CHECK_MESSAGE(outcome.ok(), outcome.message());
}
inline void together(const World& world, uint32_t size, const std::function<Status(Rank&)>& body) {
  for (const Status& outcome : outcomes(open(world), world.comm, size, body))
    CHECK_MESSAGE(outcome.ok(), outcome.message());
}

}  // namespace comm_test
