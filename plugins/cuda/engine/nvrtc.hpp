// SPDX-License-Identifier: Apache-2.0
// nvrtc.hpp: NVIDIA's run-time compiler, opened when the first kernel is compiled.
//
// Invariant: one NVRTC per process, of the driver's own major version where it can be found, so that the driver takes what
// it makes.
#pragma once

#include <tenon/result.hpp>

#include <nvrtc.h>

#include <string>
#include <vector>

namespace tenon::cuda {

class Nvrtc {
 public:
  static constexpr int oldest_major = 12;  // that Tenon takes

  // `path` is the library to take (an option), or nullptr for the usual places. The first answer stands for the process.
  // TN_NOT_FOUND says what to install. [any-thread; may block; may fail]
  static Result<const Nvrtc*> open(int driver_version, const char* path);

  int version() const noexcept { return version_; }  // 1300: 13.0
  // Code for compute capability `sm` as the driver's loader takes it: a CUBIN, or PTX for the newest chip this NVRTC
  // knows when `sm` is newer. TN_INTERNAL with NVRTC's own log. [any-thread; may block; may fail]
  Result<std::string> compile(const std::string& source, const char* name, uint32_t sm) const;

 private:
#define TN_NVRTC_SYMBOL(name) decltype(&::name) name = nullptr;
#include "nvrtc_symbols.def"

  static Result<const Nvrtc*> start(int driver_version, const char* path);
  Status load(const std::string& file);
  Status read_version();
  Status build(nvrtcProgram program, const std::vector<const char*>& options) const;
  Status failed(nvrtcResult result, const char* call) const;

  int version_ = 0;
  std::vector<int> chips_{};  // compute capabilities it knows, ascending
};

}  // namespace tenon::cuda
