// SPDX-License-Identifier: Apache-2.0
// fused_copy_test.cpp: many copies as one launch, within what a device takes.
#include "overlap/fused_copy.hpp"
#include "model.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;

namespace {

// With the same options in every case, because a plugin takes those of the first runtime of a process.
Device open_device(std::string_view name) {
  Result<Runtime> tenon = runtime({{"sim.max_nodes", "1"}});
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  Result<Device> device = tenon->device(name);
  REQUIRE_MESSAGE(device.ok(), device.message());
  return *device;
}

// Copies five rows of bytes there and back on `device`, and says how many launches each took.
Result<uint64_t> launches_on(Device device, uint32_t max_bindings) {
  constexpr uint64_t rows = 5, width = 24;
  Stream stream = TN_TRY(device.stream());
  const uint64_t alignment = std::max<uint64_t>(device.limits().alignment, width);
  const Buffer here = TN_TRY(device.allocate(stream, rows * alignment))
  , there = TN_TRY(device.allocate(stream, rows * alignment));
  std::vector<std::byte> data(rows * alignment), found(rows * alignment);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 % 251);
  TN_TRY(stream.upload(here, data));
  TN_TRY(stream.fill(there));
  overlap::FusedCopy copy(device, max_bindings);
  std::vector<overlap::FusedCopy::Part> in, back;
  for (uint64_t row = 0; row < rows; ++row) {
    const tn_span from = TN_TRY(here.slice(row * alignment, width))
    , to = TN_TRY(there.slice((rows - 1 - row) * alignment, width));
    in.push_back({f32, to, from});
    back.push_back({f32, from, to});
  }
  TN_TRY(copy.run(stream, in));
  const uint64_t once = copy.launches();
  TN_TRY(stream.fill(here));
  TN_TRY(copy.run(stream, back));
  TN_TRY(stream.download(found, here));
  TN_TRY(stream.sync());
  for (uint64_t row = 0; row < rows; ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * alignment);
    const bool same = std::equal(data.begin() + begin, data.begin() + begin + width, found.begin() + begin);
    TN_TRY(expect(same, "row " + std::to_string(row) + " has other bytes"));
  }
  TN_TRY(expect(copy.launches() == 2 * once, "the way back took another number of launches"));
  return once;
}

}  // namespace

TEST_CASE("copies: five take one launch, or as many as a device's limit makes of them") {
  const Device device = open_device("cpu");
  struct Case {
    uint32_t max_bindings;
    uint64_t launches;
  };
  for (const Case& c : {Case{0, 1}, {10, 1}, {9, 2}, {4, 3}, {2, 5}}) {
    const auto launches = launches_on(device, c.max_bindings);
    REQUIRE_MESSAGE(launches.ok(), launches.message());
    CHECK(*launches == c.launches);
  }
}

TEST_CASE("copies: on a device without the kernel each is one of its own") {
  const Device device = open_device("sim");
  const auto launches = launches_on(device, device.limits().max_bindings);
  REQUIRE_MESSAGE(launches.ok(), launches.message());
  CHECK(*launches == 5);
}
