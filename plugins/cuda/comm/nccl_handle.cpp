// SPDX-License-Identifier: Apache-2.0
// nccl_handle.cpp: joining, dividing and ending, each begun by one call and then looked at.
#include "nccl_handle.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstring>
#include <thread>

namespace tenon::cuda::comm {

using author::text;

namespace {

constexpr std::chrono::microseconds look_at_nccl_again{50};

// A split's place, which the library's own thread may fill late.
bool is_born(const ncclComm_t& place) noexcept {
  return __atomic_load_n(&place, __ATOMIC_ACQUIRE) != nullptr;
}

void* pages_of(const Memory& memory) noexcept {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(memory.place()));
}

}  // namespace

Result<std::shared_ptr<NcclHandle>> NcclHandle::join(const Nccl& library, const Ticket& ticket,
                                                     const NcclId& id, const Patience& patience) {
  auto made = std::make_shared<NcclHandle>(library, ticket.gpu, ticket.name);
  const Context& context = *ticket.gpu->context();
  const Bound bound(context.driver(), context.handle());
  ncclUniqueId native_id;
  static_assert(sizeof native_id == sizeof id);
  std::memcpy(&native_id, id.data(), sizeof native_id);
  ncclConfig_t config = made->config();
  TN_TRY(library.check(library.ncclCommInitRankConfig(&made->native_, static_cast<int>(ticket.size),
                                                      native_id, static_cast<int>(ticket.rank), &config),
                       "ncclCommInitRankConfig"));
  const Status stands = made->settle(patience, [] { return Status(); });
  if (stands.ok()) return made;
  return Status(
      stands.code(),
      text("rank ", ticket.rank, " of communicator '", ticket.name, "': ",
           stands.code() == TN_TIMEOUT ? "NCCL did not connect it to the others in time" : stands.message()));
}

ncclConfig_t NcclHandle::config() const {
  ncclConfig_t out = NCCL_CONFIG_INITIALIZER;
  out.blocking = 0;
  out.commName = name_.c_str();
  return out;
}

Status NcclHandle::with(const std::function<Status(ncclComm_t)>& call) {
  const Context& context = *gpu_->context();
  const Bound bound(context.driver(), context.handle());
  const Relaxed relaxed(context.driver());
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return Status(TN_ABORTED, "the library's communicator has ended");
  return call(native_);
}

Status NcclHandle::state() {
  return with([&](ncclComm_t comm) -> Status {
    ncclResult_t state = ncclSuccess;
    TN_TRY(library_.check(library_.ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm));
    if (state == ncclInProgress) return Status(TN_BUSY, "NCCL has more to do");
    return library_.check(state, "NCCL", comm);
  });
}

Status NcclHandle::settle(const Patience& patience, const Over& over) {
  for (;;) {
    TN_TRY(over());
    Status now = state();
    if (now.code() != TN_BUSY) return now;
    if (patience.called_off()) return Status(TN_ABORTED, "it was called off");
    if (patience.over()) return Status(TN_TIMEOUT, "NCCL was not done in time");
    std::this_thread::sleep_for(look_at_nccl_again);
  }
}

Result<std::shared_ptr<NcclHandle>> NcclHandle::split(int32_t color, int32_t key, const std::string& name,
                                                      const Patience& patience, const Over& over) {
  auto made = std::make_shared<NcclHandle>(library_, gpu_, name);
  ncclComm_t& born = born_.emplace_back(nullptr);
  ncclConfig_t config = made->config();
  TN_TRY(with([&](ncclComm_t comm) {
    return library_.check(
        library_.ncclCommSplit(comm, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &born, &config),
        "ncclCommSplit", comm);
  }));
  TN_TRY(settle(patience, over));
  if (color < 0) return std::shared_ptr<NcclHandle>();
  while (!is_born(born)) {
    TN_TRY(over());
    if (patience.over()) return Status(TN_TIMEOUT, "NCCL was not done in time");
    std::this_thread::sleep_for(look_at_nccl_again);
  }
  made->native_ = born;
  TN_TRY(made->settle(patience, over));
  return made;
}

Result<std::pair<uint32_t, uint32_t>> NcclHandle::seat() {
  int rank = 0, size = 0;
  TN_TRY(with([&](ncclComm_t comm) -> Status {
    TN_TRY(library_.check(library_.ncclCommUserRank(comm, &rank), "ncclCommUserRank", comm));
    return library_.check(library_.ncclCommCount(comm, &size), "ncclCommCount", comm);
  }));
  return std::pair(static_cast<uint32_t>(rank), static_cast<uint32_t>(size));
}

Result<std::vector<Memory*>> NcclHandle::not_enrolled(std::span<Memory* const> memories) {
  std::vector<Memory*> out;
  TN_TRY(with([&](ncclComm_t) -> Status {
    for (Memory* const memory : memories) {
      const bool known = enrolled_.contains(memory) || std::ranges::find(out, memory) != out.end();
      if (!known && memory->pages() != 0) out.push_back(memory);
    }
    return {};
  }));
  return out;
}

Status NcclHandle::enroll(Memory& memory) {
  TN_TRY(with([&](ncclComm_t comm) -> Status {
    Enrolled made;
    TN_TRY(library_.check(library_.ncclCommRegister(comm, pages_of(memory), memory.pages(), &made.buffer),
                          "ncclCommRegister", comm));
    enrolled_.emplace(&memory, made);
    return {};
  }));
  let_go_with(memory);
  return {};
}

Status NcclHandle::enroll_window(Memory& memory, const Patience& patience, const Over& over) {
  TN_TRY(with([&](ncclComm_t comm) -> Status {
    ncclWindow_t& place = enrolled_[&memory].window;
    return library_.check(library_.ncclCommWindowRegister(comm, pages_of(memory), memory.pages(), &place,
                                                          NCCL_WIN_COLL_SYMMETRIC),
                          "ncclCommWindowRegister", comm);
  }));
  Status made = settle(patience, over);
  if (made.ok()) {
    let_go_with(memory);
    return made;
  }
  abort();  // the library may be at the memory still, which its caller may free
  return made;
}

void NcclHandle::let_go_with(Memory& memory) {
  memory.before_end([weak = weak_from_this(), which = &memory] {
    if (const auto handle = weak.lock()) handle->let_go(*which);
  });
}

Status NcclHandle::end_of(const Enrolled& enrolled, ncclComm_t comm) const {
  if (enrolled.window != nullptr) {
    return library_.check(library_.ncclCommWindowDeregister(comm, enrolled.window),
                          "ncclCommWindowDeregister", comm);
  }
  if (enrolled.buffer == nullptr) return {};
  return library_.check(library_.ncclCommDeregister(comm, enrolled.buffer), "ncclCommDeregister", comm);
}

// An aborted communicator has let everything go by itself.
void NcclHandle::let_go(const Memory& memory) {
  (void)with([&](ncclComm_t comm) -> Status {
    const auto found = enrolled_.find(&memory);
    if (found == enrolled_.end()) return {};
    const Enrolled ended = found->second;
    enrolled_.erase(found);
    return end_of(ended, comm);
  });
}

Status NcclHandle::let_all_go() {
  return with([&](ncclComm_t comm) -> Status {
    for (const auto& [memory, enrolled] : std::exchange(enrolled_, {})) TN_TRY(end_of(enrolled, comm));
    return {};
  });
}

Status NcclHandle::finalize(const Patience& patience) {
  TN_TRY(let_all_go());
  TN_TRY(with([&](ncclComm_t comm) {
    return library_.check(library_.ncclCommFinalize(comm), "ncclCommFinalize", comm);
  }));
  TN_TRY(settle(patience, [] { return Status(); }));
  const Context& context = *gpu_->context();
  const Bound bound(context.driver(), context.handle());
  const ncclComm_t last = take();
  return last == nullptr ? Status() : library_.check(library_.ncclCommDestroy(last), "ncclCommDestroy");
}

ncclComm_t NcclHandle::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(native_, nullptr);
}

void NcclHandle::abort() {
  const ncclComm_t last = take();
  if (last == nullptr) return;
  const Context& context = *gpu_->context();
  const Bound bound(context.driver(), context.handle());
  const Relaxed relaxed(context.driver());
  library_.ncclCommAbort(last);
}

Result<CUdeviceptr> NcclHandle::word() {
  if (word_ == nullptr) word_ = TN_TRY(Slabs::take(gpu_->slabs(), sizeof(uint64_t)));
  return word_->address();
}

}  // namespace tenon::cuda::comm
