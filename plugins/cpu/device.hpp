// SPDX-License-Identifier: Apache-2.0
// device.hpp: one NUMA node as a device, and its memory.
//
// Invariant: device, host and managed memory are the same thing here: pages of this process at a fixed address.
#pragma once

#include "driver.hpp"
#include "engine/roster.hpp"
#include "kernel.hpp"
#include "stream.hpp"

#include <tenon/device.h>
#include <tenon/kernel.h>

namespace tenon::cpu {

// Bytes at an address, given back by its destructor.
class Memory {
 public:
  // `used` is the device's figure, kept up to date; `node` is where the pages should lie, -1: anywhere.
  // TN_NO_MEMORY with the figures. [any-thread; may block; may fail]
  static Result<std::unique_ptr<Memory>> allocate(uint64_t bytes, uint64_t alignment, int node,
                                                  std::atomic<uint64_t>& used);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::byte* data() const noexcept { return data_; }
  uint64_t bytes() const noexcept { return bytes_; }
  Result<uint64_t> address() { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data_)); }

 private:
  Memory(std::byte* data, uint64_t bytes, bool mapped, std::atomic<uint64_t>& used) noexcept
      : data_(data), bytes_(bytes), mapped_(mapped), used_(used) {}

  std::byte* data_;
  uint64_t bytes_;
  bool mapped_;
  std::atomic<uint64_t>& used_;
};

class Device {
 public:
  // `threads` is how many of them one command may use.
  Device(driver::Node node, unsigned threads, author::Host host, Roster& roster);

  void limits(tn_device_limits& out) const;
  Status memory_info(tn_memory_info& out);
  Result<std::unique_ptr<Memory>> allocate(uint32_t kind, uint64_t bytes, uint64_t alignment);
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options& options);
  Result<bool> peer(Device& other);
  Status supports(const tn_fragment& fragment, tn_support& out);
  tn_pattern_list patterns();
  Result<std::unique_ptr<Kernel>> compile(const tn_fragment& fragment, const tn_compile_options& options);

  Crew& crew() noexcept { return crew_; }
  Roster& roster() noexcept { return roster_; }
  // Where this device's threads run; empty on a machine of one node: anywhere.
  const std::vector<int>& processors() const noexcept { return placement_; }

 private:
  driver::Node node_;
  std::vector<int> placement_;
  Crew crew_;
  Roster& roster_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace tenon::cpu
