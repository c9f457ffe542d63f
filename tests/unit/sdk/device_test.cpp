// SPDX-License-Identifier: Apache-2.0
// device_test.cpp: opening and closing devices, allocating and freeing memory.
// Invariant: what a device holds keeps it open, and an author sees only requests that make sense.
#include "scripted.hpp"

using namespace scripted;

namespace {

// Opens a device that states `limits`, or fails to.
int32_t open_with(Session& session, const tn_device_limits& limits) {
  script.limits = limits;
  tn_device* device = nullptr;
  const int32_t code = session.plugin->device->open(session.plugin, 0, nullptr, &device, &session.error);
  if (code == TN_OK) CHECK(session.plugin->device->close(device, &session.error) == TN_OK);
  return code;
}

tn_device_limits limits_of(uint64_t alignment, uint32_t priorities) {
  auto limits = tenon::author::outgoing<tn_device_limits>();
  limits.alignment = alignment;
  limits.priorities = priorities;
  return limits;
}

}  // namespace

TEST_CASE("device: an ordinal that does not exist is TN_NOT_FOUND with the count") {
  Session s;
  tn_device* device = nullptr;
  auto info = tenon::author::outgoing<tn_device_info>();
  CHECK(s.plugin->device->open(s.plugin, 2, nullptr, &device, &s.error) == TN_NOT_FOUND);
  CHECK(std::string(s.error.message) == "device 2 does not exist: plugin 'scripted' has 2 devices");
  CHECK(s.plugin->device->info(s.plugin, UINT32_MAX, &info, &s.error) == TN_NOT_FOUND);
  CHECK(!script.called("Plugin::open"));
}

TEST_CASE("device: two opens give two handles") {
  Session s;
  tn_device *first = nullptr, *second = nullptr;
  CHECK(s.plugin->device->open(s.plugin, 0, nullptr, &first, &s.error) == TN_OK);
  CHECK(s.plugin->device->open(s.plugin, 0, nullptr, &second, &s.error) == TN_OK);
  CHECK(first != second);
  CHECK(s.plugin->device->close(first, &s.error) == TN_OK);
  CHECK(s.plugin->device->close(second, &s.error) == TN_OK);
}

TEST_CASE("device: close names everything that still lives, and the handle stays good") {
  Bench b;
  tn_memory* second = nullptr;
  b.good(b.plugin->device->alloc(b.device, TN_MEMORY_DEVICE, 1, 0, &second, &b.error));
  CHECK(b.plugin->device->close(b.device, &b.error) == TN_BUSY);
  CHECK(std::string(b.error.message) ==
        "device 0 still has 2 memories, 2 streams, 1 kernel, 1 communicator: destroy them before closing it");
  b.good(b.plugin->device->free(second, &b.error));
  CHECK(b.plugin->device->close(b.device, &b.error) == TN_BUSY);
  CHECK(b.said("1 memory,"));
}

TEST_CASE("device: limits that break the contract are caught at open") {
  Session s;
  CHECK(open_with(s, limits_of(64, 1)) == TN_INTERNAL);
  CHECK(std::string(s.error.message).find("alignment 64") != std::string::npos);
  CHECK(open_with(s, limits_of(768, 1)) == TN_INTERNAL);
  CHECK(open_with(s, limits_of(256, 0)) == TN_INTERNAL);
  CHECK(open_with(s, limits_of(256, 1)) == TN_OK);
}

TEST_CASE("device: limits that an author leaves alone are the contract's least") {
  Bench b;
  auto limits = tenon::author::outgoing<tn_device_limits>();
  b.good(b.plugin->device->limits(b.device, &limits, &b.error));
  CHECK(limits.alignment == TN_MEMORY_ALIGNMENT);
  CHECK(limits.priorities == 1);
}

TEST_CASE("memory: the author is asked for an alignment that is resolved") {
  Bench b;
  tn_memory* memory = nullptr;
  for (const auto& [asked, granted] :
       {std::pair<uint64_t, uint64_t>{0, 256}, {1, 256}, {256, 256}, {4096, 4096}}) {
    b.good(b.plugin->device->alloc(b.device, TN_MEMORY_DEVICE, 8, asked, &memory, &b.error));
    CHECK(script.alignment_asked == granted);
    b.good(b.plugin->device->free(memory, &b.error));
  }
  CHECK(b.plugin->device->alloc(b.device, TN_MEMORY_DEVICE, 8, 48, &memory, &b.error) == TN_INVALID);
  CHECK(b.said("alignment 48"));
}

TEST_CASE("memory: an unknown kind is TN_UNSUPPORTED") {
  Bench b;
  tn_memory* memory = nullptr;
  CHECK(b.plugin->device->alloc(b.device, 3, 8, 0, &memory, &b.error) == TN_UNSUPPORTED);
  CHECK(b.said("kind 3"));
  CHECK(memory == nullptr);
}

TEST_CASE("memory: a request over the device's limit is TN_NO_MEMORY with the figures") {
  Session s;
  script.limits = limits_of(256, 1);
  script.limits.max_alloc_bytes = 100;
  tn_device* device = nullptr;
  tn_memory* memory = nullptr;
  REQUIRE(s.plugin->device->open(s.plugin, 0, nullptr, &device, &s.error) == TN_OK);
  CHECK(s.plugin->device->alloc(device, TN_MEMORY_DEVICE, 101, 0, &memory, &s.error) == TN_NO_MEMORY);
  CHECK(std::string(s.error.message) == "asked for 101 bytes, and one memory of device 0 holds at most 100");
  CHECK(s.plugin->device->alloc(device, TN_MEMORY_DEVICE, 100, 0, &memory, &s.error) == TN_OK);
  CHECK(s.plugin->device->free(memory, &s.error) == TN_OK);
  CHECK(s.plugin->device->close(device, &s.error) == TN_OK);
}

TEST_CASE("memory: no bytes are a valid memory") {
  Bench b;
  tn_memory* memory = nullptr;
  b.good(b.plugin->device->alloc(b.device, TN_MEMORY_DEVICE, 0, 0, &memory, &b.error));
  CHECK(memory != nullptr);
  b.good(b.plugin->device->free(memory, &b.error));
}

TEST_CASE("memory: a failed allocation counts for nothing") {
  Bench b;
  tn_memory* memory = nullptr;
  script.acts["Device::allocate"] = [] { return Status(TN_NO_MEMORY, "0 of 8 bytes free"); };
  CHECK(b.plugin->device->alloc(b.device, TN_MEMORY_DEVICE, 8, 0, &memory, &b.error) == TN_NO_MEMORY);
  CHECK(memory == nullptr);
  CHECK(b.plugin->device->close(b.device, &b.error) == TN_BUSY);
  CHECK(b.said("1 memory,"));
}

TEST_CASE("device: peer access to itself needs no asking") {
  Bench b;
  uint32_t direct = 0;
  b.good(b.plugin->device->peer(b.device, b.device, &direct, &b.error));
  CHECK(direct == 1);
  CHECK(!script.called("Device::peer"));
  tn_device* second = nullptr;
  b.good(b.plugin->device->open(b.plugin, 1, nullptr, &second, &b.error));
  b.good(b.plugin->device->peer(b.device, second, &direct, &b.error));
  CHECK(direct == 0);
  CHECK(script.called("Device::peer"));
  b.good(b.plugin->device->close(second, &b.error));
}

TEST_CASE("device: the author's object stands behind the handle") {
  Bench b;
  Memory& memory = tenon::author::object<Memory>(b.memory);
  CHECK(memory.bytes() == 4096);
  CHECK(tenon::author::data_of<Memory>(b.span(16, 8)) == memory.data() + 16);
  CHECK(tenon::author::bytes_of<Memory>(b.span(16, 8)).size() == 8);
  CHECK(tenon::author::elements_of<float, Memory>(b.span(16, 8)).size() == 2);
  int here = 0;
  const tn_span host{nullptr, reinterpret_cast<uintptr_t>(&here), sizeof here, TN_SPACE_HOST_ADDRESS, 0};
  CHECK(static_cast<void*>(tenon::author::data_of<Memory>(host)) == &here);
  CHECK(tenon::author::data_of<Memory>(tn_span{}) == nullptr);
}
