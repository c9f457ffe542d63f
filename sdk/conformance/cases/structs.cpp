// SPDX-License-Identifier: Apache-2.0
// structs.cpp: structs that are shorter or longer than the plugin knows them.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/guard.hpp"

#include <cstddef>
#include <cstring>

namespace tenon::conform {

namespace {

constexpr unsigned char canary = 0xA5;

// Calls `fill` with an out-struct of every size from 4 bytes to past the known end, and looks behind it.
template <class Struct, class Fill>
void try_sizes(Context& t, const char* name, Fill&& fill) {
  unsigned char room[sizeof(Struct) + 256];
  const auto known = static_cast<uint32_t>(sizeof(Struct));
  for (const uint32_t size :
       {4u, 8u, 12u, known / 2 / 4 * 4, known - 8, known - 4, known, known + 8, known + 128}) {
    std::memset(room, canary, sizeof room);
    auto* const out = reinterpret_cast<Struct*>(room);
    out->size = size;
    const Status said = fill(out);
    t.check(said.ok(), name, " of size ", size, ": ", said.message());
    size_t beyond = size;
    while (beyond < sizeof room && room[beyond] == canary) ++beyond;
    t.check(beyond == sizeof room, name, " of size ", size, ": byte ", beyond, " was written");
  }
}

}  // namespace

CONFORM_CASE(0, "abi: an info struct is never written past its size") {
  const Tables& api = *TN_TRY(t.tables());
  const Device& device = *TN_TRY(t.device());
  try_sizes<tn_device_info>(t, "tn_device_info", [&](tn_device_info* out) {
    return t.call("device.info",
                  [&](tn_error* e) { return api.device.info(api.plugin, t.settings().device, out, e); });
  });
  try_sizes<tn_device_limits>(t, "tn_device_limits", [&](tn_device_limits* out) {
    return t.call("device.limits", [&](tn_error* e) { return api.device.limits(device.handle(), out, e); });
  });
  try_sizes<tn_memory_info>(t, "tn_memory_info", [&](tn_memory_info* out) {
    return t.call("device.memory_info",
                  [&](tn_error* e) { return api.device.memory_info(device.handle(), out, e); });
  });
  return {};
}

CONFORM_CASE(0, "abi: options that know less are not read past their size") {
  const Tables& api = *TN_TRY(t.tables());
  const Device& device = *TN_TRY(t.device());
  const Fenced shorter(offsetof(tn_stream_options, name));
  const tn_stream_options stream_options{.size = offsetof(tn_stream_options, name), .priority = 0};
  std::memcpy(shorter.data(), &stream_options, shorter.bytes().size());
  tn_stream* handle = nullptr;
  TN_TRY(t.call("stream.create with options of 8 bytes", [&](tn_error* e) {
    return api.stream.create(device.handle(), reinterpret_cast<const tn_stream_options*>(shorter.data()),
                             &handle, e);
  }));
  t.accepts("stream.destroy",
            [&](tn_error* e) { return api.stream.destroy(handle, TN_DESTROY_COMPLETE, e); });
  const Fenced least(offsetof(tn_device_options, next));
  const tn_device_options device_options{.size = offsetof(tn_device_options, next)};
  std::memcpy(least.data(), &device_options, least.bytes().size());
  tn_device* second = nullptr;
  TN_TRY(t.call("device.open with options of 8 bytes", [&](tn_error* e) {
    return api.device.open(api.plugin, t.settings().device,
                           reinterpret_cast<const tn_device_options*>(least.data()), &second, e);
  }));
  return t.call("device.close", [&](tn_error* e) { return api.device.close(second, e); });
}

CONFORM_CASE(0, "abi: options that know more are taken") {
  const Tables& api = *TN_TRY(t.tables());
  const Device& device = *TN_TRY(t.device());
  struct {
    tn_stream_options known;
    unsigned char unknown[128];
  } newer{.known = {.size = sizeof newer, .priority = 0, .name = "newer", .next = nullptr}, .unknown = {}};
  std::memset(newer.unknown, 0xFF, sizeof newer.unknown);
  tn_stream* handle = nullptr;
  TN_TRY(t.call("stream.create with longer options",
                [&](tn_error* e) { return api.stream.create(device.handle(), &newer.known, &handle, e); }));
  const Stream stream(t, api, handle);
  return stream.finish();
}

CONFORM_CASE(0, "abi: a link that must be understood is refused, another is passed over") {
  const Tables& api = *TN_TRY(t.tables());
  const Device& device = *TN_TRY(t.device());
  tn_link link{
      .next = nullptr, .id = "no.such.thing/1", .size = sizeof(tn_link), .flags = TN_LINK_MUST_UNDERSTAND};
  const tn_device_options opening{.size = sizeof opening, .reserved = 0, .next = &link};
  const tn_stream_options making{.size = sizeof making, .priority = 0, .name = nullptr, .next = &link};
  tn_device* opened = nullptr;
  tn_stream* made = nullptr;
  const auto open = [&](tn_error* e) {
    return api.device.open(api.plugin, t.settings().device, &opening, &opened, e);
  };
  const auto make = [&](tn_error* e) { return api.stream.create(device.handle(), &making, &made, e); };
  t.refuses(TN_UNSUPPORTED, "device.open with an unknown link that must be understood", open);
  t.refuses(TN_UNSUPPORTED, "stream.create with an unknown link that must be understood", make);
  link.flags = 0;
  if (t.accepts("device.open with an unknown link", open)) {
    t.accepts("device.close", [&](tn_error* e) { return api.device.close(opened, e); });
  }
  if (t.accepts("stream.create with an unknown link", make)) {
    t.accepts("stream.destroy",
              [&](tn_error* e) { return api.stream.destroy(made, TN_DESTROY_COMPLETE, e); });
  }
  return {};
}

}  // namespace tenon::conform
