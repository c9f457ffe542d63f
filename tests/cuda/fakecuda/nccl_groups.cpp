// SPDX-License-Identifier: Apache-2.0
// nccl_groups.cpp: collectives and messages of NCCL's stand-in: what they are told is checked and written down, results are bytes of 0x7F.
//
// Invariant: nothing is put on a stream before somebody has looked until the group was done with.
#include "library.hpp"
#include "nccl.hpp"

#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>

namespace fakenccl {
namespace {

thread_local int depth = 0;
thread_local std::vector<Call> collected;

constexpr const char* reduction_names[] = {"sum", "prod", "max", "min", "avg"};

std::string words_of(const Comm& comm, int op) {
  if (op < ncclNumOps) return reduction_names[op];
  require(comm.reductions.contains(op));
  return "premul";
}

// The task of one call; it may be run by any thread of the driver's.
std::function<void()> work_of(const Call& call, bool hangs,
                              const std::shared_ptr<std::atomic<bool>>& aborted) {
  return [to = call.to, bytes = call.written, hangs, aborted] {
    while (hangs && !*aborted) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (bytes != 0 && !*aborted) std::memset(reinterpret_cast<void*>(to), 0x7F, bytes);
  };
}

ncclResult_t collect(State& s, ncclComm_t handle, CUstream stream, const std::string& words, const void* from,
                     size_t read, const void* to, size_t written) {
  const Comm& comm = ready_comm(s, handle);
  require(depth > 0, ncclInvalidUsage);
  const auto at = [](const void* pointer, size_t bytes) {
    require(bytes == 0 || pointer != nullptr);
    return bytes == 0 ? CUdeviceptr{0} : reinterpret_cast<CUdeviceptr>(pointer);
  };
  collected.push_back({.comm = handle,
                       .stream = stream,
                       .words = "rank " + std::to_string(comm.rank) + " " + words,
                       .from = at(from, read),
                       .to = at(to, written),
                       .read = read,
                       .written = written});
  return ncclSuccess;
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  constexpr size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  require(type >= 0 && static_cast<size_t>(type) < std::size(sizes));
  return sizes[type];
}

void enqueue(State& s, Comm& comm, const std::vector<Call>& calls) {
  const bool hangs = comm.groups == s.settings.hang_at || comm.groups == s.settings.remote_error_at;
  auto* const put = driver_function<std::remove_pointer_t<fakecuda::EnqueueFn>>("fakecuda_enqueue");
  for (const Call& call : calls) {
    std::vector<fakecuda::Range> ranges;
    if (call.read != 0) ranges.push_back({call.from, call.read});
    if (call.written != 0) ranges.push_back({call.to, call.written});
    const auto work = work_of(call, hangs, comm.aborted);
    const CUresult result = put(call.stream, ranges.data(), ranges.size(), &work);
    require(result != CUDA_ERROR_INVALID_VALUE);
    require(result == CUDA_SUCCESS, ncclUnhandledCudaError);
    s.log += call.words + "\n";
  }
}

}  // namespace fakenccl

using namespace fakenccl;

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return call([&](State& s) {
    require(depth > 0, ncclInvalidUsage);
    if (--depth > 0) return ncclSuccess;
    std::vector<Call> calls = std::move(collected);
    collected.clear();
    if (calls.empty()) return ncclSuccess;
    const ncclComm_t handle = calls.front().comm;
    Comm& comm = ready_comm(s, handle);
    for (const Call& each : calls)
      require(each.comm == handle && each.stream == calls.front().stream, ncclInvalidUsage);
    ++comm.groups;
    s.log += "a group begins\n";
    return begin(s, comm, [&s, calls = std::move(calls)](Comm& mine) {
      try {
        enqueue(s, mine, calls);
        s.log += "rank " + std::to_string(mine.rank) + " group of " + std::to_string(calls.size()) + "\n";
        if (mine.groups == s.settings.remote_error_at) mine.state = ncclRemoteError;
      } catch (const Refused& refused) {
        mine.state = refused.result;
      }
      return true;
    });
  });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t handle) {
  return call([&](State& s) {
    Comm& comm = ready_comm(s, handle);
    require(op != nullptr && scalar != nullptr && depth == 0);
    uint64_t bits = 0;
    if (residence == ncclScalarHostImmediate) std::memcpy(&bits, scalar, size_of(type));
    s.log += "rank " + std::to_string(comm.rank) + " premul type " + std::to_string(type) +
             (residence == ncclScalarDevice ? " on the device" : " " + std::to_string(bits)) + "\n";
    *op = static_cast<ncclRedOp_t>(comm.made);
    comm.reductions[comm.made++] = type;
    return ncclSuccess;
  });
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  return call([&](State& s) {
    require(ready_comm(s, handle).reductions.erase(op) == 1);
    return ncclSuccess;
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t handle, cudaStream_t stream) {
  return call([&](State& s) {
    const std::string words = "all_reduce " + std::to_string(count) + " type " + std::to_string(type) + " " +
                              words_of(ready_comm(s, handle), op);
    return collect(s, handle, stream, words, from, count * size_of(type), to, count * size_of(type));
  });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t handle, cudaStream_t stream) {
  return call([&](State& s) {
    const Comm& comm = ready_comm(s, handle);
    const size_t bytes = count * size_of(type);
    const std::string words = "reduce_scatter " + std::to_string(count) + " type " + std::to_string(type) +
                              " " + words_of(comm, op);
    return collect(s, handle, stream, words, from, bytes * static_cast<size_t>(comm.clique->size), to, bytes);
  });
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t handle, cudaStream_t stream) {
  return call([&](State& s) {
    const Comm& comm = ready_comm(s, handle);
    require(root >= 0 && root < comm.clique->size);
    const size_t bytes = count * size_of(type);
    const std::string words = "reduce " + std::to_string(count) + " type " + std::to_string(type) + " " +
                              words_of(comm, op) + " root " + std::to_string(root);
    return collect(s, handle, stream, words, from, bytes, to, comm.rank == root ? bytes : 0);
  });
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t handle, cudaStream_t stream) {
  return call([&](State& s) {
    const Comm& comm = ready_comm(s, handle);
    require(root >= 0 && root < comm.clique->size);
    const size_t bytes = count * size_of(type);
    return collect(s, handle, stream,
                   "broadcast " + std::to_string(bytes) + " bytes root " + std::to_string(root), from,
                   comm.rank == root ? bytes : 0, to, bytes);
  });
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t handle,
                           cudaStream_t stream) {
  return call([&](State& s) {
    const size_t bytes = count * size_of(type);
    const auto size = static_cast<size_t>(ready_comm(s, handle).clique->size);
    return collect(s, handle, stream, "all_gather " + std::to_string(bytes) + " bytes", from, bytes, to,
                   size * bytes);
  });
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  return call([&](State& s) {
    require(peer >= 0 && peer < ready_comm(s, handle).clique->size);
    const size_t bytes = count * size_of(type);
    return collect(s, handle, stream, "sends " + std::to_string(bytes) + " bytes to " + std::to_string(peer),
                   from, bytes, nullptr, 0);
  });
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  return call([&](State& s) {
    require(peer >= 0 && peer < ready_comm(s, handle).clique->size);
    const size_t bytes = count * size_of(type);
    return collect(s, handle, stream,
                   "receives " + std::to_string(bytes) + " bytes from " + std::to_string(peer), nullptr, 0,
                   to, bytes);
  });
}
