// SPDX-License-Identifier: Apache-2.0
// extensions.cpp: what tn.import/1 and tn.profile/1 offer; tn.capture/1 and tn.ipc/1 have files of their own.
//
// Invariant: an extension that is not offered is a skip; one that is offered has to work.
#include "conformance/extensions.hpp"

#include "conformance/case.hpp"
#include "conformance/guard.hpp"

#include <time.h>

#include <algorithm>

namespace tenon::conform {

namespace {

Result<const tn_import_api*> import_of(Context& t) {
  return extension_of<tn_import_api>(t, TN_IMPORT_ID, [](const tn_import_api& api) {
    return api.stream != nullptr && api.memory != nullptr && api.native != nullptr;
  });
}

Result<uint64_t> native_of(Context& t, const tn_import_api& api, const Stream& stream) {
  uint64_t native = 0;
  TN_TRY(t.call("import.native", [&](tn_error* e) { return api.native(stream.handle(), &native, e); }));
  return native;
}

Result<Stream> borrowed_stream(Context& t, const Device& device, const tn_import_api& api, uint64_t native) {
  tn_stream* made = nullptr;
  TN_TRY(t.call("import.stream", [&](tn_error* e) { return api.stream(device.handle(), native, &made, e); }));
  TN_TRY(t.require(made != nullptr, "import.stream said TN_OK and gave no stream"));
  return Stream(t, device.api(), made);
}

Result<Memory> borrowed_memory(Context& t, const Device& device, const tn_import_api& api, uint64_t address,
                               uint64_t bytes) {
  tn_memory* made = nullptr;
  TN_TRY(t.call("import.memory",
                [&](tn_error* e) { return api.memory(device.handle(), address, bytes, &made, e); }));
  TN_TRY(t.require(made != nullptr, "import.memory said TN_OK and gave no memory"));
  return Memory(t, device.api(), made, bytes);
}

// One reading of both clocks.
struct Clocks {
  uint64_t device_ns = 0, host_ns = 0, uncertainty_ns = 0;
};

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

Result<Clocks> read_clocks(Context& t, const Device& device, const tn_profile_api& api) {
  Clocks out;
  const uint64_t before = monotonic_ns();
  TN_TRY(t.call("profile.clocks", [&](tn_error* e) {
    return api.clocks(device.handle(), &out.device_ns, &out.host_ns, &out.uncertainty_ns, e);
  }));
  const uint64_t after = monotonic_ns();
  t.check(out.host_ns + out.uncertainty_ns >= before && out.host_ns <= after + out.uncertainty_ns,
          "the host's clock was read at ", out.host_ns, " ns of CLOCK_MONOTONIC, which was ", before,
          " before the call and ", after, " after it; the uncertainty is ", out.uncertainty_ns, " ns");
  t.check(out.uncertainty_ns <= 1'000'000'000, "an uncertainty of ", out.uncertainty_ns, " ns pairs nothing");
  return out;
}

// How far `to` may be from `from` ns later, by what both readings say of themselves and a clock that is off by 1 in 1,000.
uint64_t room_between(const Clocks& from, const Clocks& to) {
  return from.uncertainty_ns + to.uncertainty_ns + (to.host_ns - from.host_ns) / 1000 + 1000;
}

}  // namespace

CONFORM_CASE(0, "import: a native stream is borrowed, and covers the work that it holds") {
  const tn_import_api& api = *TN_TRY(import_of(t));
  const Device& device = *TN_TRY(t.device());
  const uint64_t bytes = uint64_t{8} << 20;
  const Memory memory = TN_TRY(device.alloc(bytes));
  const Stream own = TN_TRY(device.stream());
  const uint64_t native = TN_TRY(native_of(t, api, own));
  {
    const Stream borrowed = TN_TRY(borrowed_stream(t, device, api, native));
    t.check(TN_TRY(native_of(t, api, borrowed)) == native, "an imported stream has another native handle");
    TN_TRY(own.fill(memory.span(), 0x11, 1));
    const uint64_t value = TN_TRY(borrowed.record());
    TN_TRY(borrowed.sync(value));
    same_bytes(t, Bytes(bytes, std::byte{0x11}), TN_TRY(download(borrowed, memory.span())),
               "work of the native stream, after a value recorded on the imported one");
    TN_TRY(borrowed.fill(memory.span(), 0x22, 1));
    TN_TRY(borrowed.finish());
  }
  same_bytes(t, Bytes(bytes, std::byte{0x22}), TN_TRY(download(own, memory.span())),
             "the stream whose imported handle was destroyed");
  TN_TRY(own.fill(memory.span(), 0x33, 1));
  TN_TRY(own.finish());
  t.refuses(TN_INVALID, "import.native of NULL", [&](tn_error* e) {
    uint64_t none = 0;
    return api.native(nullptr, &none, e);
  });
  return {};
}

CONFORM_CASE(0, "import: memory at a native address is borrowed, and freeing it leaves it alone") {
  const tn_import_api& api = *TN_TRY(import_of(t));
  const Device& device = *TN_TRY(t.device());
  TN_TRY(t.needs(device.has(TN_FEATURE_ADDRESSABLE), "feature.ADDRESSABLE",
                 "the plugin does not declare ADDRESSABLE"));
  const Memory memory = TN_TRY(device.alloc(8192));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(stream.fill(memory.span(), 0x44, 1));
  const uint64_t address = TN_TRY(memory.address());
  Bytes wanted(8192, std::byte{0x44});
  {
    const Memory part = TN_TRY(borrowed_memory(t, device, api, address + 1024, 2048));
    TN_TRY(stream.fill(part.span(), 0x55, 1));
    TN_TRY(stream.finish());
    t.check(TN_TRY(part.address()) == address + 1024, "imported memory has another address");
  }
  std::fill_n(wanted.begin() + 1024, 2048, std::byte{0x55});
  same_bytes(t, wanted, TN_TRY(download(stream, memory.span())),
             "memory whose imported part was filled and freed");
  if (device.has(TN_FEATURE_HOST_MEMORY)) return {};
  t.refuses(TN_INVALID, "import.memory at address 8, which no device reaches", [&](tn_error* e) {
    tn_memory* made = nullptr;
    return api.memory(device.handle(), 8, 64, &made, e);
  });
  return {};
}

CONFORM_CASE(0, "profile: the two clocks are paired as closely as they say") {
  const auto& api = *TN_TRY(extension_of<tn_profile_api>(
      t, TN_PROFILE_ID, [](const tn_profile_api& table) { return table.clocks != nullptr; }));
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(4096));
  const Stream stream = TN_TRY(device.stream());
  const Clocks first = TN_TRY(read_clocks(t, device, api));
  TN_TRY(stream.fill(memory.span(), 1, 1));
  const uint64_t value = TN_TRY(stream.record(TN_RECORD_TIMED));
  TN_TRY(stream.sync(value));
  const Clocks second = TN_TRY(read_clocks(t, device, api));
  t.check(second.device_ns >= first.device_ns, "the device's clock went from ", first.device_ns, " back to ",
          second.device_ns);
  const uint64_t room = room_between(first, second), host = second.host_ns - first.host_ns,
                 elapsed = second.device_ns - first.device_ns;
  t.check(std::max(host, elapsed) - std::min(host, elapsed) <= room, "between two readings ", elapsed,
          " ns went by on the device and ", host, " ns on the host, which is farther apart than the ", room,
          " ns that both readings leave open");
  if (device.api().stream.timestamp == nullptr) return {};
  const uint64_t at = TN_TRY(stream.timestamp(value));
  t.check(at + room >= first.device_ns && at <= second.device_ns + room,
          "a value that was recorded and reached ", "between the readings ", first.device_ns, " and ",
          second.device_ns, " has the time ", at);
  return {};
}

}  // namespace tenon::conform
