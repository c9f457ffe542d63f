// SPDX-License-Identifier: Apache-2.0
// device.hpp: one NUMA node as a device, and its memory.
//
// Invariant: device, host and managed memory are the same thing here: pages of this process at a fixed address.
#pragma once

#include "comm.hpp"
#include "driver.hpp"
#include "engine/roster.hpp"
#include "kernel.hpp"
#include "kernels/search.hpp"
#include "stream.hpp"

#include <tenon/device.h>
#include <tenon/kernel.h>

namespace tenon::cpu {

// Bytes at an address, given back by its destructor.
class Memory {
 public:
  // `used` is the device's figure, kept up to date; `node` is where the pages should lie, -1: anywhere. `shared`: other
  // processes may open it, when it is large enough to have pages of its own; it has them all before it is used.
  // TN_NO_MEMORY with the figures. [any-thread; may block; may fail]
  static Result<std::unique_ptr<Memory>> allocate(uint64_t bytes, uint64_t alignment, int node,
                                                  std::atomic<uint64_t>& used, bool shared = false);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::byte* data() const noexcept { return data_; }
  uint64_t bytes() const noexcept { return bytes_; }
  Result<uint64_t> address() { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data_)); }
  // How other ranks find byte `offset`, in `out`, which is empty. [any-thread; does not block; cannot fail]
  void find_window(uint64_t offset, comm::Window& out) const noexcept;
  // How often shared memory was given back in this process. [any-thread; does not block; cannot fail]
  static uint32_t shared_given_back() noexcept { return given_back_.load(std::memory_order_relaxed); }

 private:
  Memory(std::byte* data, uint64_t bytes, bool mapped, std::atomic<uint64_t>& used) noexcept
      : data_(data), bytes_(bytes), mapped_(mapped), used_(used) {}
  static Result<std::unique_ptr<Memory>> share(uint64_t bytes, int node, std::atomic<uint64_t>& used);

  static inline std::atomic<uint32_t> given_back_{0};

  std::byte* data_;
  uint64_t bytes_;
  bool mapped_;
  std::atomic<uint64_t>& used_;
  comm::system::Fd file_;  // of shared memory
  uint64_t inode_ = 0;
};

// Whether large allocations can be opened by other processes, which spares their collectives a copy; the price is that
// shared pages are small ones where the system is not told otherwise, and slower to touch first.
enum class Sharing { never, with_peers, always };

class Device {
 public:
  // `threads` is how many of them one command may use. `with_peers`: from when a communicator spans processes.
  Device(driver::Node node, unsigned threads, SearchOptions search, Sharing sharing, author::Host host,
         Roster& roster, comm::Segments& segments);

  void limits(tn_device_limits& out) const;
  Status memory_info(tn_memory_info& out);
  Result<std::unique_ptr<Memory>> allocate(uint32_t kind, uint64_t bytes, uint64_t alignment);
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options& options);
  Result<bool> peer(Device& other);
  Status supports(const tn_fragment& fragment, tn_support& out);
  tn_pattern_list patterns();
  Result<std::unique_ptr<Kernel>> compile(const tn_fragment& fragment, const tn_compile_options& options);

  Result<uint64_t> comm_id_bytes() { return sizeof(comm::Id); }
  Status make_comm_id(std::span<std::byte> id);
  Result<std::unique_ptr<Comm>> create_comm(uint32_t rank, uint32_t size, std::span<const std::byte> id,
                                            const tn_comm_options& options);

  Crew& crew() noexcept { return crew_; }
  Roster& roster() noexcept { return roster_; }
  // Where this device's threads run; empty on a machine of one node: anywhere.
  const std::vector<int>& processors() const noexcept { return placement_; }

 private:
  void tell_unwatched() const;
  driver::Node node_;
  std::vector<int> placement_;
  Crew crew_;
  Roster& roster_;
  comm::Segments& segments_;
  const Sharing sharing_;
  std::atomic<bool> has_peers_{false};
  std::atomic<bool> unwatched_{false};  // and it was told
  WaySearch search_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace tenon::cpu
