// SPDX-License-Identifier: Apache-2.0
// bare.hpp: the driver called directly, as a program without Tenon would.
//
// Invariant: it works in the same context and on the same kind of stream as the plugin, so only the way there differs.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <string>

namespace bench {

class Bare {
 public:
  // `why` says what is missing when it cannot be used.
  explicit Bare(std::string& why);
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;
  ~Bare();
  bool usable() const noexcept { return usable_; }

  void launch() const { launch_(function_, 1, 1, 1, 32, 1, 1, 0, stream_, parameters_, nullptr); }
  // Into another event each time, as who wants to wait for it later must.
  void record() const { record_(events_[next_++ % events_.size()], stream_); }
  void sync() const { synchronize_(stream_); }
  // Copies device memory, and gives the device's own time for it in ns.
  double copy_ns(uint64_t to, uint64_t from, uint64_t bytes) const;

 private:
  bool start(std::string& why);
  bool make_events(decltype(&::cuEventCreate) create);

  bool usable_ = false;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
  std::array<CUevent, 256> events_{};
  mutable size_t next_ = 0;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  uint64_t block_[4]{};
  mutable void* parameters_[1]{block_};
  decltype(&::cuLaunchKernel) launch_ = nullptr;
  decltype(&::cuEventRecord) record_ = nullptr;
  decltype(&::cuEventQuery) query_ = nullptr;
  decltype(&::cuStreamSynchronize) synchronize_ = nullptr;
  CUresult (*elapsed_)(float*, CUevent, CUevent) = nullptr;
  CUresult (*copy_)(CUdeviceptr, CUdeviceptr, size_t, CUstream) = nullptr;
};

}  // namespace bench
