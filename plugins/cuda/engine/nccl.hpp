// SPDX-License-Identifier: Apache-2.0
// nccl.hpp: NVIDIA's library of collectives, opened when the first id of a communicator is made or read; its errors in Tenon's words.
//
// Before it is opened NCCL_LAUNCH_ORDER_IMPLICIT=1 is put into the environment, unless somebody has set it: groups of several
// communicators then run on a device in the order in which they were launched.
// Invariant: one NCCL per process, no older than the oldest that is taken. A failure names the library's call, its own code, what
// the library last said and what to do.
#pragma once

#include <tenon/result.hpp>

#include <nccl.h>

#include <string>

#if NCCL_VERSION_CODE < 22800
#error \
    "plugin 'cuda' is written for nccl.h of 2.28 or newer: leave an older one out with -DTENON_CUDA_NCCL=OFF"
#endif

namespace tenon::cuda {

class Nccl {
 public:
#define TN_NCCL_SYMBOL(name) decltype(&::name) name = nullptr;
#include "nccl_symbols.def"

  static constexpr int oldest = 22800;

  // `path` is the library to take (an option), "off" for none, or nullptr for the usual places. The first answer of a library
  // stands for the process. TN_NOT_FOUND says what to install, TN_VERSION what is too old. [any-thread; may block; may fail]
  static Result<const Nccl*> open(const char* path);

  int version() const noexcept { return version_; }  // 22809: 2.28.9
  // What `call` gave: success, or on its way; else the failure. `comm` may be null. [any-thread; does not block; may fail]
  Status check(ncclResult_t result, const char* call, ncclComm_t comm = nullptr) const;

 private:
  static Result<const Nccl*> start(const char* path);
  Status load(const std::string& file);
  Status check_version(const std::string& file);

  int version_ = 0;
};

// "2.28.9" for 22809.
std::string nccl_version_text(int version);

}  // namespace tenon::cuda
