// SPDX-License-Identifier: Apache-2.0
// device.hpp: Device, which makes memory, streams and kernels, and Memory.
//
// Invariant: the framework checks every argument first: alignments are powers of two, spans lie inside their
// memory, fragments are well formed, and a device is closed after all it made is gone.
#pragma once

#include <tenon/author/plugin.hpp>

#include <atomic>

namespace plugin {

class Stream;
class Kernel;

// How much memory the device has.
uint64_t device_bytes();

// One allocation, freed by its destructor.
class Memory {
 public:
  // Throws std::bad_alloc when there is none, which the host sees as TN_NO_MEMORY.
  Memory(uint64_t bytes, uint64_t alignment, std::atomic<uint64_t>& used);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t bytes() const { return bytes_; }
  // Leave this out when your memory has no address.
  tenon::Result<uint64_t> address() { return reinterpret_cast<uintptr_t>(data_); }
  // For data_of() and its siblings in author/span.hpp, which serve devices whose memory is host memory.
  void* data() { return data_; }

 private:
  uint64_t bytes_;
  std::align_val_t alignment_;
  std::atomic<uint64_t>& used_;  // of the device
  void* data_;
};

class Device {
 public:
  void limits(tn_device_limits& out) const;
  tenon::Status memory_info(tn_memory_info& out);
  tenon::Result<std::unique_ptr<Memory>> allocate(uint32_t kind, uint64_t bytes, uint64_t alignment);
  tenon::Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options& options);

  // Kernels; both are in kernel.cpp.
  tenon::Status supports(const tn_fragment& fragment, tn_support& out);
  tenon::Result<std::unique_ptr<Kernel>> compile(const tn_fragment& fragment,
                                                 const tn_compile_options& options);

 private:
  std::atomic<uint64_t> used_{0};
};

}  // namespace plugin
