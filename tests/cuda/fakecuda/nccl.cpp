// SPDX-License-Identifier: Apache-2.0
// nccl.cpp: libnccl.so.2 for tests: settings, joining, dividing, ending.
//
// Invariant: a call on a communicator that has more to do is refused, so a caller that does not look is found out.
#include "nccl.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace fakenccl {
namespace {

constexpr struct {
  std::string_view key;
  uint64_t Settings::*field;
} keys[] = {{"slow", &Settings::slow},
            {"never", &Settings::never},
            {"version", &Settings::version},
            {"remote_error_at", &Settings::remote_error_at},
            {"hang_at", &Settings::hang_at}};

Settings settings_of(std::string_view text) {
  Settings out;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equals = std::min(item.find('='), item.size());
    const std::string_view digits = equals < item.size() ? item.substr(equals + 1) : "1";
    bool known = false;
    for (const auto& key : keys) {
      if (item.substr(0, equals) != key.key) continue;
      known = std::from_chars(digits.data(), digits.data() + digits.size(), out.*key.field).ec == std::errc();
    }
    if (known) continue;
    std::fprintf(stderr, "FAKENCCL: '%.*s' is not understood\n", static_cast<int>(item.size()), item.data());
    std::abort();
  }
  return out;
}

// Takes its place among the ranks of the clique; what the looks wait for.
void enter(State& s, Comm& comm) {
  Clique& clique = *comm.clique;
  for (const auto& [rank, device] : clique.devices) {
    require(rank != comm.rank);
    require(device != comm.context, ncclInvalidUsage);
  }
  clique.devices[comm.rank] = comm.context;
  const bool never = s.settings.never != 0;
  begin(s, comm, [never](Comm& mine) {
    mine.stands = !never && mine.clique->devices.size() == static_cast<size_t>(mine.clique->size);
    return mine.stands;
  });
}

// Where a rank goes when all have said their color: the clique of that color, and its rank there.
std::pair<std::shared_ptr<Clique>, int> part_of(State& s, const Clique& all, uint64_t number, int rank) {
  const auto& said = all.splits.at(number);
  const auto [color, key] = said.at(rank);
  auto& clique = s.cliques["split " + std::to_string(reinterpret_cast<uintptr_t>(&all)) + " " +
                           std::to_string(number) + " " + std::to_string(color)];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->size = 0;
  int place = 0;
  for (const auto& [other, choice] : said) {
    if (choice.first != color) continue;
    ++clique->size;
    place += std::pair(choice.second, other) < std::pair(key, rank) ? 1 : 0;
  }
  return {clique, place};
}

// Pages that are mapped, each once.
uint64_t keep(State& s, Comm& comm, void* buffer, size_t size) {
  const auto at = reinterpret_cast<CUdeviceptr>(buffer);
  require(at != 0 && size != 0);
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  CUdeviceptr base = 0;
  size_t mapped = 0;
  void* answers[] = {&base, &mapped};
  const auto ask = driver_function<CUresult(unsigned, CUpointer_attribute*, void**, CUdeviceptr)>(
      "cuPointerGetAttributes");
  require(ask(2, asked, answers, at) == CUDA_SUCCESS && base == at && size == mapped);
  for (const auto& entry : comm.registered) require(entry.second.first != at, ncclInvalidUsage);
  comm.registered[++s.next_registration] = {at, size};
  return s.next_registration;
}

void remove(State& s, ncclComm_t handle, const char* words) {
  const auto found = s.comms.find(reinterpret_cast<uint64_t>(handle));
  require(found != s.comms.end());
  *found->second->aborted = true;
  s.log += "rank " + std::to_string(found->second->rank) + " " + words + "\n";
  s.comms.erase(found);
}

}  // namespace

State& state() {
  static State* const the_state = [] {
    auto* made = new State;
    const char* text = std::getenv("FAKENCCL");
    made->settings = settings_of(text != nullptr ? text : "");
    const char* order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    made->log = std::string("launch order ") + (order != nullptr ? order : "not set") + "\n";
    return made;
  }();
  return *the_state;
}

CUcontext current_context() {
  CUcontext now = nullptr;
  const auto ask = driver_function<CUresult(CUcontext*)>("cuCtxGetCurrent");
  require(ask(&now) == CUDA_SUCCESS && now != nullptr, ncclUnhandledCudaError);
  return now;
}

Comm& comm_of(State& s, ncclComm_t handle) {
  const auto found = s.comms.find(reinterpret_cast<uint64_t>(handle));
  require(found != s.comms.end());
  require(found->second->context == current_context(), ncclInvalidUsage);
  return *found->second;
}

Comm& ready_comm(State& s, ncclComm_t handle) {
  Comm& comm = comm_of(s, handle);
  require(comm.state != ncclInProgress && !comm.finalized);
  require(comm.state == ncclSuccess, comm.state);
  return comm;
}

ncclComm_t add_comm(State& s, std::unique_ptr<Comm> comm) {
  s.next_comm += 16;
  s.comms.emplace(s.next_comm, std::move(comm));
  return reinterpret_cast<ncclComm_t>(s.next_comm);
}

ncclResult_t begin(State& s, Comm& comm, std::function<bool(Comm&)> next) {
  comm.state = ncclInProgress;
  comm.looks = s.settings.slow;
  comm.next = std::move(next);
  return ncclInProgress;
}

}  // namespace fakenccl

using namespace fakenccl;

// For tests: what was called and what ran since this was last asked.
extern "C" __attribute__((visibility("default"))) const char* fakenccl_log() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.told = std::exchange(s.log, {});
  return s.told.c_str();
}

// For tests: how many communicators are left, with the reductions made for them.
extern "C" __attribute__((visibility("default"))) size_t fakenccl_left_over() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  size_t out = s.comms.size();
  for (const auto& entry : s.comms) out += entry.second->reductions.size();
  return out;
}

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = static_cast<int>(state().settings.version);
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return call([&](State& s) {
    require(id != nullptr);
    std::memset(id, 0, sizeof *id);
    std::snprintf(id->internal, sizeof id->internal, "clique %llu",
                  static_cast<unsigned long long>(s.next_id++));
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "what the result says";
}
const char* ncclGetLastError(ncclComm_t) { return state().last.c_str(); }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return call([&](State& s) {
    require(out != nullptr && config != nullptr && config->magic == 0xcafebeef && config->blocking == 0);
    require(rank >= 0 && rank < size && id.internal[0] != '\0');
    auto& clique = s.cliques[std::string(id.internal)];
    if (clique == nullptr) clique = std::make_shared<Clique>();
    require(clique->size == 0 || clique->size == size);
    clique->size = size;
    auto comm = std::make_unique<Comm>();
    comm->clique = clique;
    comm->rank = rank;
    comm->context = current_context();
    enter(s, *comm);
    s.log += "rank " + std::to_string(rank) + " joins " + std::to_string(size) + "\n";
    *out = add_comm(s, std::move(comm));
    return ncclInProgress;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  return call([&](State& s) {
    Comm& comm = ready_comm(s, handle);
    require(out != nullptr && config != nullptr && config->blocking == 0 && color >= NCCL_SPLIT_NOCOLOR);
    const uint64_t number = comm.splits++;
    comm.clique->splits[number][comm.rank] = {color, key};
    s.log += "rank " + std::to_string(comm.rank) + " splits " + std::to_string(color) + "\n";
    return begin(s, comm, [&s, number, color, out](Comm& mine) {
      const Clique& all = *mine.clique;
      if (all.splits.at(number).size() < static_cast<size_t>(all.size)) return false;
      if (color == NCCL_SPLIT_NOCOLOR) return true;
      auto made = std::make_unique<Comm>();
      std::tie(made->clique, made->rank) = part_of(s, all, number, mine.rank);
      made->context = mine.context;
      enter(s, *made);
      *out = add_comm(s, std::move(made));
      return true;
    });
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  return call([&](State& s) {
    require(state != nullptr);
    Comm& comm = comm_of(s, handle);
    if (comm.state == ncclInProgress && (comm.looks == 0 || --comm.looks == 0) && comm.next(comm) &&
        comm.state == ncclInProgress)
      comm.state = ncclSuccess;
    *state = comm.state;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  return call([&](State& s) {
    require(count != nullptr);
    *count = ready_comm(s, handle).clique->size;
    return ncclSuccess;
  });
}
ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  return call([&](State& s) {
    require(rank != nullptr);
    *rank = ready_comm(s, handle).rank;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return call([&](State& s) {
    Comm& comm = ready_comm(s, handle);
    require(comm.reductions.empty() && comm.registered.empty(), ncclInvalidUsage);
    comm.finalized = true;
    s.log += "rank " + std::to_string(comm.rank) + " finalizes\n";
    return begin(s, comm, [](Comm&) { return true; });
  });
}
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return call([&](State& s) {
    const Comm& comm = comm_of(s, handle);
    require(comm.finalized && comm.state == ncclSuccess, ncclInvalidUsage);
    remove(s, handle, "is destroyed");
    return ncclSuccess;
  });
}
ncclResult_t ncclCommRegister(const ncclComm_t handle, void* buffer, size_t size, void** out) {
  return call([&](State& s) {
    Comm& comm = ready_comm(s, handle);
    require(out != nullptr);
    *out = reinterpret_cast<void*>(keep(s, comm, buffer, size));
    s.log += "rank " + std::to_string(comm.rank) + " registers " + std::to_string(size) + " bytes\n";
    return ncclSuccess;
  });
}
ncclResult_t ncclCommDeregister(const ncclComm_t handle, void* registration) {
  return call([&](State& s) {
    Comm& comm = comm_of(s, handle);
    require(comm.registered.erase(reinterpret_cast<uint64_t>(registration)) == 1);
    s.log += "rank " + std::to_string(comm.rank) + " lets memory go\n";
    return ncclSuccess;
  });
}
// Stands once all ranks have brought as many bytes; the handle is there only then.
ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* buffer, size_t size, ncclWindow_t* out,
                                    int flags) {
  return call([&](State& s) {
    Comm& comm = ready_comm(s, handle);
    require(out != nullptr && flags == NCCL_WIN_COLL_SYMMETRIC);
    const uint64_t kept = keep(s, comm, buffer, size), number = comm.windows++;
    comm.clique->windows[number][comm.rank] = size;
    s.log += "rank " + std::to_string(comm.rank) + " opens a window of " + std::to_string(size) + " bytes\n";
    return begin(s, comm, [kept, number, size, out](Comm& mine) {
      const auto& all = mine.clique->windows.at(number);
      if (all.size() < static_cast<size_t>(mine.clique->size)) return false;
      if (std::ranges::any_of(all, [&](const auto& rank) { return rank.second != size; }))
        mine.state = ncclInvalidUsage;
      *out = reinterpret_cast<ncclWindow_t>(kept);
      return true;
    });
  });
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  return call([&](State& s) {
    Comm& comm = comm_of(s, handle);
    require(comm.registered.erase(reinterpret_cast<uint64_t>(window)) == 1);
    s.log += "rank " + std::to_string(comm.rank) + " closes a window\n";
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return call([&](State& s) {
    (void)comm_of(s, handle);
    remove(s, handle, "is aborted");
    return ncclSuccess;
  });
}
