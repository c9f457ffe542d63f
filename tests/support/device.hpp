// SPDX-License-Identifier: Apache-2.0
// The device that the cases of a program run on: --device=PLUGIN or --device=PLUGIN/PROFILE, as ctest passes it.
// Invariant: a program that asks for no device ignores the argument; without it, it is the CPU plugin's.
#pragma once

#include <string>
#include <string_view>

namespace tenon::test {

struct DeviceUnderTest {
  std::string plugin = "cpu";
  std::string profile{};  // of the simulated device; empty: its own choice

  // "sim/kunlun". [any-thread]
  std::string label() const { return profile.empty() ? plugin : plugin + "/" + profile; }
};

// Set by main() before any case runs. [any-thread]
inline DeviceUnderTest& device_under_test() {
  static DeviceUnderTest device;
  return device;
}

// Takes the argument if it is the device's. [main thread]
inline void read_device(std::string_view argument) {
  constexpr std::string_view option = "--device=";
  if (!argument.starts_with(option)) return;
  argument.remove_prefix(option.size());
  const size_t slash = argument.find('/');
  const bool has_profile = slash != std::string_view::npos;
  device_under_test() = {.plugin = std::string(argument.substr(0, slash)),
                         .profile = std::string(has_profile ? argument.substr(slash + 1) : "")};
}

}  // namespace tenon::test
