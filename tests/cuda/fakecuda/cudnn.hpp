// SPDX-License-Identifier: Apache-2.0
// cudnn.hpp: what the stand-in of cuDNN knows of each descriptor, and the one state behind its calls.
//
// Invariant: a descriptor is a number until it is looked up, so one that is gone or was never made is told from a live one.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fakecudnn {

// One tensor as a plan knows it.
struct Tensor {
  int64_t number = -1, bytes = 0, alignment = 0;
  int type = CUDNN_DATA_FLOAT;
  bool is_virtual = false, is_written = false, is_constant = false;  // a constant's place is on the host
};

struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  bool finalized = false;
  std::map<int, std::vector<char>> values{};  // as they were set
  std::map<int, std::string> words{};         // the same to be read
  std::vector<Tensor> tensors{};              // that it is made of
  int64_t choice = 0, workspace = 0;          // of a configuration and of what is made of it
};

struct Refused {
  cudnnStatus_t status;
  const char* reason;
};
inline void require(bool holds, const char* reason, cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
  if (!holds) throw Refused{status, reason};
}

struct Handle {
  uint64_t context = 0;
  cudaStream_t stream = nullptr;
};

struct State {
  std::mutex mutex{};
  std::string log{}, told{}, error{};
  uint64_t next = uint64_t{0x31} << 40;
  std::map<uint64_t, Descriptor> descriptors{};
  std::map<uint64_t, Handle> handles{};
  int64_t fast = -1;  // runs of plans of another choice take two milliseconds; -1: none does
};

// Never destroyed: plans run until the process ends.
State& state();
Descriptor& get(State& s, cudnnBackendDescriptor_t native);
// All that a descriptor was given, in one line.
std::string words_of(const Descriptor& d);
uint64_t current_context();

template <class Body>
cudnnStatus_t call(Body&& body) noexcept {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  try {
    body(s);
    return CUDNN_STATUS_SUCCESS;
  } catch (const Refused& refused) {
    s.error = refused.reason;
    s.log += "refused: " + s.error + "\n";
    return refused.status;
  }
}

}  // namespace fakecudnn
