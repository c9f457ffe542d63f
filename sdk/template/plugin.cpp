// SPDX-License-Identifier: Apache-2.0
// plugin.cpp: who this plugin is, and which devices there are.
//
// Invariant: nothing happens before `open`: no driver starts, no thread runs, no file is written.
#include "device.hpp"
#include "kernel.hpp"
#include "stream.hpp"

namespace plugin {

using namespace tenon::author;

struct Plugin {
  // YOURS: the version of your plugin, and what your device can do beyond the minimum (TN_FEATURE_… in
  // plugin.h). SYNCHRONOUS says that work completes inside the call: drop it when stream.cpp uses a queue of
  // your device. HOST_MEMORY says that device memory is host memory: drop it when device.cpp allocates on
  // your device. ADDRESSABLE says that device memory has plain addresses: drop it if yours has handles only.
  static constexpr Identity identity{
      .name = "@NAME@",
      .vendor = "@VENDOR@",
      .version = "0.1.0",
      .features = TN_FEATURE_SYNCHRONOUS | TN_FEATURE_HOST_MEMORY | TN_FEATURE_ADDRESSABLE};
  using Device = plugin::Device;
  using Memory = plugin::Memory;
  using Stream = plugin::Stream;
  using Kernel = plugin::Kernel;

  explicit Plugin(Host services) : host(services) {}

  // YOURS: ask your driver. No driver installed means no devices: return 0 and log why.
  tenon::Result<uint32_t> device_count() { return 1u; }

  // YOURS: what can be known without opening device `ordinal`.
  tenon::Status describe(uint32_t ordinal, tn_device_info& out) {
    out.kind = TN_DEVICE_OTHER;
    set_text(out.name, "@NAME@");
    set_text(out.id, text("@NAME@", ordinal));  // the same at every start: a PCI address, a serial number
    out.memory_bytes = device_bytes();
    out.dlpack_type = 1;  // kDLCPU; the DLDeviceType of your chip
    return {};
  }

  // YOURS: here your driver may start.
  tenon::Result<std::unique_ptr<Device>> open(uint32_t ordinal, const tn_device_options& /*options*/) {
    host.log(TN_LOG_INFO, text("opening device ", ordinal));
    return std::make_unique<Device>();
  }

  Host host;  // logging, options and more: see author/host.hpp
};

}  // namespace plugin

TENON_PLUGIN(plugin::Plugin)
