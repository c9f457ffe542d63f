// SPDX-License-Identifier: Apache-2.0
// device.cpp: memory and limits. YOURS: put your driver's calls where this file allocates host memory.
//
// Invariant: `used_` is the sum of all living memories.
#include "device.hpp"

#include "kernel.hpp"
#include "stream.hpp"

#include <new>

#include <unistd.h>

namespace plugin {

using namespace tenon::author;

uint64_t device_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

Memory::Memory(uint64_t bytes, uint64_t alignment, std::atomic<uint64_t>& used)
    : bytes_(bytes), alignment_{alignment}, used_(used), data_(operator new(bytes, alignment_)) {
  used_ += bytes_;
}

Memory::~Memory() {
  operator delete(data_, alignment_);
  used_ -= bytes_;
}

// What is left alone keeps the contract's least: alignment 256, one priority, no limit of its own.
void Device::limits(tn_device_limits& out) const { out.max_alloc_bytes = device_bytes(); }

tenon::Status Device::memory_info(tn_memory_info& out) {
  out.total_bytes = device_bytes();
  out.used_here_bytes = std::min<uint64_t>(used_, out.total_bytes);
  out.free_bytes = out.total_bytes - out.used_here_bytes;
  return {};
}

// YOURS: three kinds (TN_MEMORY_…): on the device, pinned on the host, managed. TN_UNSUPPORTED for a kind you
// lack; here all are the same.
tenon::Result<std::unique_ptr<Memory>> Device::allocate(uint32_t /*kind*/, uint64_t bytes,
                                                        uint64_t alignment) {
  return std::make_unique<Memory>(bytes, alignment, used_);
}

tenon::Result<std::unique_ptr<Stream>> Device::create_stream(const tn_stream_options& /*options*/) {
  return std::make_unique<Stream>();
}

}  // namespace plugin
