// SPDX-License-Identifier: Apache-2.0
// torch_peer.hpp: torch in a process of its own, asked for one figure at a time, so that its runs stand between ours.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <cstdio>
#include <string>

namespace bench {

class TorchPeer {
 public:
  // Starts it for additions of `bytes` each; `why()` says what is missing when it cannot be asked.
  explicit TorchPeer(uint64_t bytes);
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;
  ~TorchPeer();

  const std::string& why() const noexcept { return why_; }
  bool usable() const noexcept { return why_.empty(); }
  // The device's time for d = a + b + c in ns; `how` is "eager" or "compile". Negative when it fails.
  double add3_ns(const char* how);

 private:
  std::string read_line();

  std::string why_;
  pid_t child_ = -1;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

}  // namespace bench
