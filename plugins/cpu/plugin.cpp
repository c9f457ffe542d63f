// SPDX-License-Identifier: Apache-2.0
// plugin.cpp: the entry, the identity and the devices of this machine.
//
// Options of the host: `threads`, how many threads one command may use (default: the processors of the device).
// Invariant: until a device is opened nothing is started, written or kept but what /sys told about the machine.
#include "device.hpp"

#include <tenon/author/plugin.hpp>

namespace tenon::cpu {

class Plugin {
 public:
  static constexpr author::Identity identity{
      .name = "cpu",
      .vendor = "Tenon",
      .version = TENON_PLUGIN_VERSION,
      .features = TN_FEATURE_ADDRESSABLE | TN_FEATURE_CROSS_DEVICE_WAIT | TN_FEATURE_HOST_MEMORY,
  };
  using Device = cpu::Device;
  using Memory = cpu::Memory;
  using Stream = cpu::Stream;
  using Kernel = cpu::Kernel;

  explicit Plugin(author::Host host) : host_(host) {}

  Result<uint32_t> device_count() { return static_cast<uint32_t>(nodes().size()); }

  Status describe(uint32_t ordinal, tn_device_info& out) {
    const driver::Node& node = nodes()[ordinal];
    out.kind = TN_DEVICE_CPU;
    out.dlpack_type = 1;  // kDLCPU
    out.numa_node = node.number;
    out.memory_bytes = node.memory_bytes;
    out.compute_units = static_cast<uint32_t>(node.processors.size());
    author::set_text(out.name, driver::cpu_model());
    author::set_text(out.id, author::text("numa", node.number));
    return {};
  }

  Result<std::unique_ptr<cpu::Device>> open(uint32_t ordinal, const tn_device_options& /*options*/) {
    const driver::Node& node = nodes()[ordinal];
    const auto all = static_cast<int64_t>(node.processors.size());
    const int64_t threads = TN_TRY(host_.integer("threads", all, 1, 4096));
    driver::Fence::prepare();
    SpinSeat::look_at_affinity();
    return std::make_unique<cpu::Device>(node, static_cast<unsigned>(threads), host_, roster_);
  }

  Status quiesce() {
    roster_.stop_all();
    return {};
  }

 private:
  const std::vector<driver::Node>& nodes() {
    const std::lock_guard lock(mutex_);
    if (nodes_.empty()) nodes_ = driver::nodes();
    return nodes_;
  }

  author::Host host_;
  std::mutex mutex_;  // of nodes_
  std::vector<driver::Node> nodes_;
  Roster roster_;
};

}  // namespace tenon::cpu

TENON_PLUGIN(tenon::cpu::Plugin)
