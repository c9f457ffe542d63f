// SPDX-License-Identifier: Apache-2.0
// Devices: what they tell, and what opening them may answer.
#include "fake_plugin.hpp"

#include "runtime/device_state.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using test::FakePlugin;

TEST_CASE("device: it tells its name, info, limits and memory") {
  FakePlugin plugin({.memory_bytes = 123u << 20, .alignment = 512});
  const Device device = plugin.open(1);
  CHECK(device.name() == "fake:1");
  CHECK(std::string(device.info().name) == "fake 1");
  CHECK(device.limits().alignment == 512);
  CHECK(device.memory_info()->total_bytes == 123u << 20);
  CHECK(&device.plugin() == plugin.descriptor());
}

TEST_CASE("device: what is emulated is told in words, and nothing where all is native") {
  FakePlugin plain({.promises = false, .strided = false, .host_calls = false});
  FakePlugin rich;
  CHECK(plain.open().emulated().size() >= rich.open().emulated().size() + 3);
}

TEST_CASE("device: one that does not exist is the plugin's TN_NOT_FOUND, and nothing stays open") {
  FakePlugin plugin;
  const auto device = runtime::open_device({.plugin = plugin.descriptor(), .ordinal = 7, .name = "fake:7"});
  CHECK(device.code() == TN_NOT_FOUND);
  CHECK(plugin.live() == 0);
}
