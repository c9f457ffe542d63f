// SPDX-License-Identifier: Apache-2.0
// device.cpp: counting, describing, opening and closing devices, and what they promise.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/open_files.hpp"

#include <bit>
#include <cstring>

namespace tenon::conform {

namespace {

Result<uint32_t> count_devices(Context& t, const Tables& api) {
  uint32_t count = 0;
  TN_TRY(t.call("device.count", [&](tn_error* e) { return api.device.count(api.plugin, &count, e); }));
  return count;
}

Result<tn_device_info> describe(Context& t, const Tables& api, uint32_t ordinal) {
  tn_device_info info{};
  info.size = sizeof info;
  TN_TRY(t.call(words("device.info(", ordinal, ")"),
                [&](tn_error* e) { return api.device.info(api.plugin, ordinal, &info, e); }));
  return info;
}

}  // namespace

CONFORM_CASE(0, "device: every counted device describes itself") {
  const Tables& api = *TN_TRY(t.tables());
  const uint32_t count = TN_TRY(count_devices(t, api));
  t.check(TN_TRY(count_devices(t, api)) == count, "two counts in a row differ");
  for (uint32_t i = 0; i < count; ++i) {
    const tn_device_info info = TN_TRY(describe(t, api, i))
    , again = TN_TRY(describe(t, api, i));
    t.check(info.name[0] != '\0' && strnlen(info.name, sizeof info.name) < sizeof info.name, "device ", i,
            " has no name, or one without NUL");
    t.check(strnlen(info.id, sizeof info.id) < sizeof info.id, "the id of device ", i, " has no NUL");
    t.check(strnlen(info.driver, sizeof info.driver) < sizeof info.driver, "the driver of device ", i,
            " has no NUL");
    t.check(info.kind <= TN_DEVICE_OTHER, "device ", i, " is of kind ", info.kind, ", which does not exist");
    t.check(std::strncmp(info.id, again.id, sizeof info.id) == 0, "the id of device ", i,
            " changed between two calls");
    t.check(info.memory_bytes > 0, "device ", i, " claims to have no memory");
  }
  return {};
}

CONFORM_CASE(0, "device: an ordinal past the end is TN_NOT_FOUND") {
  const Tables& api = *TN_TRY(t.tables());
  const uint32_t count = TN_TRY(count_devices(t, api));
  const tn_device_options options{.size = sizeof options};
  for (const uint32_t ordinal : {count, count + 1, UINT32_MAX}) {
    tn_device_info info{};
    info.size = sizeof info;
    tn_device* device = nullptr;
    t.refuses(TN_NOT_FOUND, words("device.info(", ordinal, ") of ", count),
              [&](tn_error* e) { return api.device.info(api.plugin, ordinal, &info, e); });
    t.refuses(TN_NOT_FOUND, words("device.open(", ordinal, ") of ", count),
              [&](tn_error* e) { return api.device.open(api.plugin, ordinal, &options, &device, e); });
    t.check(device == nullptr, "a refused open stored a device");
  }
  return {};
}

CONFORM_CASE(0, "device: the limits keep the contract") {
  const Device& device = *TN_TRY(t.device());
  const tn_device_limits limits = TN_TRY(device.limits())
  , again = TN_TRY(device.limits());
  t.check(limits.alignment >= TN_MEMORY_ALIGNMENT && std::has_single_bit(limits.alignment), "alignment ",
          limits.alignment, " is not a power of two of at least ", TN_MEMORY_ALIGNMENT);
  t.check(limits.priorities >= 1, "there is at least one priority, the limits say 0");
  t.check(limits.copy_bytes_per_second >= 0 && limits.launch_ns >= 0, "a rate or a time is negative");
  t.check(limits.alignment == again.alignment && limits.priorities == again.priorities &&
              limits.max_streams == again.max_streams && limits.max_alloc_bytes == again.max_alloc_bytes &&
              limits.preferences == again.preferences,
          "the limits changed between two calls");
  return {};
}

CONFORM_CASE(0, "device: opened twice gives two handles") {
  const Device& first = *TN_TRY(t.device());
  const auto second = TN_TRY(second_handle(t));
  t.check(first.handle() != second->handle(), "two opens gave one handle");
  TN_TRY(tour(t, *second));
  const Status closed = second->close();
  t.check(closed.ok(), closed.message());
  return tour(t, first);  // closing one leaves the other alone
}

CONFORM_CASE(0, "device: an open that is TN_BUSY leaves the first handle good, whose end lets the next in") {
  const Tables& api = *TN_TRY(t.tables());
  TN_TRY(t.present());
  const auto first = TN_TRY(Device::open(t, t.settings().device));
  const tn_device_options options{.size = sizeof options};
  tn_device* stored = nullptr;
  const Status said = t.call("device.open while it is open", [&](tn_error* e) {
    return api.device.open(api.plugin, t.settings().device, &options, &stored, e);
  });
  if (said.ok()) return Device(t, api, stored).close();  // shared: there is nobody to be kept out
  t.check(said.code() == TN_BUSY, "a second open must succeed or be TN_BUSY: ", said.message());
  t.check(stored == nullptr, "a refused open stored a device");
  TN_TRY(tour(t, *first));
  TN_TRY(first->close());
  const auto next = Device::open(t, t.settings().device);
  TN_TRY(t.require(next.ok(), "after the only handle was closed: ", next.message()));
  return tour(t, **next);
}

CONFORM_CASE(0, "device: closing it while a memory lives is TN_BUSY and leaves it good") {
  const Tables& api = *TN_TRY(t.tables());
  const Device& device = *TN_TRY(t.device());
  Memory memory = TN_TRY(device.alloc(4096));
  t.refuses(TN_BUSY, "device.close while a memory lives",
            [&](tn_error* e) { return api.device.close(device.handle(), e); });
  TN_TRY(tour(t, device));
  return memory.release();
}

CONFORM_CASE(0, "device: closing it while a stream lives is TN_BUSY and leaves it good") {
  const Tables& api = *TN_TRY(t.tables());
  const Device& device = *TN_TRY(t.device());
  Stream stream = TN_TRY(device.stream());
  t.refuses(TN_BUSY, "device.close while a stream lives",
            [&](tn_error* e) { return api.device.close(device.handle(), e); });
  TN_TRY(tour(t, device));
  return stream.destroy();
}

CONFORM_CASE(0, "device: opens and closes many times") {
  TN_TRY(t.present());
  const int rounds = t.quick() ? 5 : 30;
  int64_t files = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto device = Device::open(t, t.settings().device);
    TN_TRY(t.require(device.ok(), "round ", i, ": ", device.message()));
    TN_TRY(tour(t, **device));
    if (i == 0) files = open_files();
  }
  check_open_files(t, files, rounds - 1, "opening and closing");
  return {};
}

CONFORM_CASE(0, "device: it is its own peer") {
  const Device& device = *TN_TRY(t.device());
  const auto peer = device.api().device.peer;
  if (peer == nullptr) return t.require(true);  // then the core stages, which is always right
  uint32_t direct = 77;
  TN_TRY(t.call("device.peer(a, a)",
                [&](tn_error* e) { return peer(device.handle(), device.handle(), &direct, e); }));
  t.check(direct == 1, "a device does not copy from its own memory directly: it says ", direct);
  return {};
}

CONFORM_CASE(0, "device: null arguments are TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const tn_device_api& d = device.api().device;
  const tn_plugin* const plugin = device.api().plugin;
  const tn_device_options options{.size = sizeof options};
  uint32_t number = 0;
  tn_device* opened = nullptr;
  tn_memory* memory = nullptr;
  tn_device_limits limits{.size = sizeof limits};
  tn_memory_info memory_info{.size = sizeof memory_info};
  t.refuses(TN_INVALID, "device.count(count = NULL)",
            [&](tn_error* e) { return d.count(plugin, nullptr, e); });
  t.refuses(TN_INVALID, "device.info(info = NULL)",
            [&](tn_error* e) { return d.info(plugin, 0, nullptr, e); });
  t.refuses(TN_INVALID, "device.open(device = NULL)",
            [&](tn_error* e) { return d.open(plugin, 0, &options, nullptr, e); });
  t.refuses(TN_INVALID, "device.close(NULL)", [&](tn_error* e) { return d.close(nullptr, e); });
  t.refuses(TN_INVALID, "device.limits(device = NULL)",
            [&](tn_error* e) { return d.limits(nullptr, &limits, e); });
  t.refuses(TN_INVALID, "device.limits(limits = NULL)",
            [&](tn_error* e) { return d.limits(device.handle(), nullptr, e); });
  t.refuses(TN_INVALID, "device.memory_info(device = NULL)",
            [&](tn_error* e) { return d.memory_info(nullptr, &memory_info, e); });
  t.refuses(TN_INVALID, "device.memory_info(info = NULL)",
            [&](tn_error* e) { return d.memory_info(device.handle(), nullptr, e); });
  t.refuses(TN_INVALID, "device.alloc(device = NULL)",
            [&](tn_error* e) { return d.alloc(nullptr, 0, 64, 0, &memory, e); });
  t.refuses(TN_INVALID, "device.alloc(memory = NULL)",
            [&](tn_error* e) { return d.alloc(device.handle(), 0, 64, 0, nullptr, e); });
  t.refuses(TN_INVALID, "device.free(NULL)", [&](tn_error* e) { return d.free(nullptr, e); });
  if (d.address != nullptr) {
    uint64_t address = 0;
    t.refuses(TN_INVALID, "device.address(memory = NULL)",
              [&](tn_error* e) { return d.address(nullptr, &address, e); });
  }
  if (d.peer != nullptr) {
    t.refuses(TN_INVALID, "device.peer(NULL, b)",
              [&](tn_error* e) { return d.peer(nullptr, device.handle(), &number, e); });
    t.refuses(TN_INVALID, "device.peer(direct = NULL)",
              [&](tn_error* e) { return d.peer(device.handle(), device.handle(), nullptr, e); });
  }
  t.check(opened == nullptr && memory == nullptr, "a refused call stored a handle");
  return {};
}

}  // namespace tenon::conform
