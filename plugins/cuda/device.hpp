// SPDX-License-Identifier: Apache-2.0
// device.hpp: an opened GPU: memory, streams, and fragments turned into kernels.
//
// Invariant: all handles of one GPU share one context, so their streams and memories go together.
#pragma once

#include "comm.hpp"
#include "engine/ipc_ticket.hpp"
#include "kernel.hpp"

namespace tenon::cuda {

class Device {
 public:
  // The tools outlive it. [any-thread; does not block; may fail]
  static Result<std::unique_ptr<Device>> make(std::shared_ptr<Gpu> gpu, const Tools& tools);

  void limits(tn_device_limits& out) const;
  Status memory_info(tn_memory_info& out);
  Result<std::unique_ptr<Memory>> allocate(uint32_t kind, uint64_t bytes, uint64_t alignment);
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options& options);
  Result<bool> peer(Device& other);
  tn_pattern_list patterns() const;
  Status supports(const tn_fragment& fragment, tn_support& out);
  Result<std::unique_ptr<Kernel>> compile(const tn_fragment& fragment, const tn_compile_options& options);
  Result<std::unique_ptr<Kernel>> load(const tn_fragment& fragment, std::span<const std::byte> saved);

  Result<uint64_t> comm_id_bytes() { return comm::id_bytes; }
  Status make_comm_id(std::span<std::byte> id);
  Result<std::unique_ptr<Comm>> create_comm(uint32_t rank, uint32_t size, std::span<const std::byte> id,
                                            const tn_comm_options& options);

  // tn.import/1
  Result<std::unique_ptr<Stream>> import_stream(CUstream native);
  Result<std::unique_ptr<Memory>> import_memory(uint64_t address, uint64_t bytes);

  // tn.ipc/1
  Status export_memory(Memory& memory, std::span<std::byte> ticket);
  Result<std::unique_ptr<Memory>> open_memory(std::span<const std::byte> ticket);

 private:
  Device(std::shared_ptr<Gpu> gpu, const Tools& tools, std::vector<std::unique_ptr<Engine>> engines)
      : gpu_(std::move(gpu)), tools_(tools), engines_(std::move(engines)) {}
  Context& context() const noexcept { return *gpu_->context(); }
  Engine& engine_of(const author::FragmentView& fragment) const;
  Result<ipc::DeviceId> id() const;
  Status check_reach(uint64_t address, uint64_t bytes) const;

  std::shared_ptr<Gpu> gpu_;
  const Tools& tools_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace tenon::cuda
