// SPDX-License-Identifier: Apache-2.0
// nccl.hpp: what the stand-in of NCCL knows of communicators and groups, and the one state behind its calls.
//
// Ranks are threads of one process, each on a device of its own. What a call begins is done only when somebody has looked often
// enough (`slow`), as the real one's threads do it behind the caller's back; so who does not look goes on too early, and is told.
// Invariant: a communicator is a number until it is looked up, so one that is gone is told from a live one.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fakenccl {

// FAKENCCL: "slow=N,never,version=N,remote_error_at=N,hang_at=N".
struct Settings {
  uint64_t slow = 3;             // looks until what was begun is done
  uint64_t never = 0;            // 1: no communicator comes to stand
  uint64_t version = 22809;      // what the library says of itself
  uint64_t remote_error_at = 0;  // the N-th group of a communicator ends it: ncclRemoteError
  uint64_t hang_at = 0;          // the N-th group of a communicator ends only with it
};

// Ends a call with this result.
struct Refused {
  ncclResult_t result;
};
inline void require(bool holds, ncclResult_t result = ncclInvalidArgument) {
  if (!holds) throw Refused{result};
}

// The ranks of one communicator.
struct Clique {
  int size = 0;
  std::map<int, CUcontext> devices{};  // the primary context of each rank that has come
  std::map<uint64_t, std::map<int, std::pair<int, int>>> splits{};  // color and key of each rank
  std::map<uint64_t, std::map<int, size_t>> windows{};              // bytes of each rank
};

// One call inside of a group.
struct Call {
  ncclComm_t comm = nullptr;
  CUstream stream = nullptr;
  std::string words{};
  CUdeviceptr from = 0, to = 0;
  size_t read = 0, written = 0;
};

struct Comm {
  std::shared_ptr<Clique> clique{};
  int rank = 0;
  CUcontext context = nullptr;
  ncclResult_t state = ncclInProgress;
  uint64_t looks = 0, groups = 0, splits = 0, windows = 0;
  bool stands = false, finalized = false;
  std::function<bool(Comm&)> next{};  // what is begun: whether it is done once looked at often enough
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::map<int, ncclDataType_t> reductions{};  // made, and not destroyed
  int made = ncclNumOps;
  std::map<uint64_t, std::pair<CUdeviceptr, size_t>> registered{};  // by handle
};

struct State {
  std::mutex mutex{};
  Settings settings{};
  std::string log{}, told{}, last{};
  std::map<std::string, std::shared_ptr<Clique>> cliques{};  // by id
  std::map<uint64_t, std::unique_ptr<Comm>> comms{};
  uint64_t next_comm = uint64_t{0x31} << 40, next_id = 1, next_registration = 0;
};

// Never destroyed: work runs until the process ends.
State& state();
// The communicator behind the handle, in its own context.
Comm& comm_of(State& s, ncclComm_t handle);
// The same, done with what it was asked for before.
Comm& ready_comm(State& s, ncclComm_t handle);
ncclComm_t add_comm(State& s, std::unique_ptr<Comm> comm);
// Begins what is done after `slow` looks at the earliest.
ncclResult_t begin(State& s, Comm& comm, std::function<bool(Comm&)> next);
// Puts the calls of a group on their streams, as fakecuda's tasks.
void enqueue(State& s, Comm& comm, const std::vector<Call>& calls);
size_t size_of(ncclDataType_t type);
CUcontext current_context();

// A function of the driver that the process has opened.
template <class Function>
Function* driver_function(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  require(driver != nullptr, ncclUnhandledCudaError);
  auto* const found = reinterpret_cast<Function*>(dlsym(driver, name));
  dlclose(driver);
  require(found != nullptr, ncclUnhandledCudaError);
  return found;
}

template <class Body>
ncclResult_t call(Body&& body) noexcept {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  try {
    return body(s);
  } catch (const Refused& refused) {
    s.last = "refused by the stand-in";
    return refused.result;
  }
}

}  // namespace fakenccl
