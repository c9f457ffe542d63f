// SPDX-License-Identifier: Apache-2.0
// absent_test.cpp: the plugin where no libcuda.so.1 opens.
//
// ctest gives this program a folder whose libcuda.so.1 is empty: the search for the name ends there, whatever driver the
// machine has further on.
// Invariant: each case asks first that the name does not open, and is skipped, visibly, in a process where it does.
#include "world.hpp"

using namespace cuda_test;

#define NO_DRIVER()                                             \
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr) \
  TENON_SKIP("no-cuda", "a libcuda.so.1 opens here: run this by ctest")

TEST_CASE("absent: without a driver the plugin loads, counts no device, and says what to install" *
          fake_only) {
  NO_DRIVER();
  const World world;
  for (int time = 0; time < 2; ++time) {
    CAPTURE(time);
    uint32_t count = 7;
    const Outcome said = try_count(count);
    CHECK(said.code == TN_NOT_FOUND);
    CHECK(count == 0);
    CHECK_MESSAGE(said.says("no NVIDIA driver: libcuda.so.1 does not open"), said.message());
    CHECK_MESSAGE(said.says("install the NVIDIA driver for this system"), said.message());
  }
}

TEST_CASE("absent: without a driver a device is neither described nor opened, for the same reason" *
          fake_only) {
  NO_DRIVER();
  const World world;
  tn_device_info info{};
  info.size = sizeof info;
  const Outcome described =
      outcome_of([&](tn_error* e) { return plugin().device->info(&plugin(), 0, &info, e); });
  Device device;
  const Outcome opened = try_open(device);
  for (const Outcome& said : {described, opened}) {
    CHECK(said.code == TN_NOT_FOUND);
    CHECK_MESSAGE(said.says("no NVIDIA driver"), said.message());
  }
}
