// SPDX-License-Identifier: Apache-2.0
// nccl_handle.hpp: one communicator of the library's: called by one thread at a time, waited for by looking, ended once.
//
// It is never blocking: a call that has more to do says so, and whoever wants more asks until it is done. Graphs that were
// captured keep it alive; the last owner aborts what nobody has ended.
// Memory that is registered with it is let go with whichever of the two ends first.
// Invariant: nobody sleeps with the library in hand, so `abort` never waits for another thread that waits.
#pragma once

#include "../engine/memory.hpp"
#include "../engine/nccl.hpp"
#include "member.hpp"
#include "nccl_door.hpp"

#include <deque>
#include <functional>
#include <map>

namespace tenon::cuda::comm {

class NcclHandle : public std::enable_shared_from_this<NcclHandle> {
 public:
  // What ends somebody's wait from outside.
  using Over = std::function<Status()>;

  NcclHandle(const Nccl& library, std::shared_ptr<Gpu> gpu, std::string name)
      : library_(library), gpu_(std::move(gpu)), name_(std::move(name)) {}
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  ~NcclHandle() { abort(); }

  // Joins, and waits until it stands. [any-thread; blocks; may fail]
  static Result<std::shared_ptr<NcclHandle>> join(const Nccl& library, const Ticket& ticket, const NcclId& id,
                                                  const Patience& patience);
  // The part of this one for `color`, once it stands; null for a negative color. [all ranks; blocks; may fail]
  Result<std::shared_ptr<NcclHandle>> split(int32_t color, int32_t key, const std::string& name,
                                            const Patience& patience, const Over& over);

  const Nccl& library() const noexcept { return library_; }
  // Lets `call` have the library's communicator. The context is current in it. TN_ABORTED once it is ended.
  Status with(const std::function<Status(ncclComm_t)>& call);
  // What the library says of it now: TN_BUSY while it has more to do. [any-thread; does not block; may fail]
  Status state();
  // Until it has done what it was asked for. TN_TIMEOUT. [any-thread; blocks; may fail]
  Status settle(const Patience& patience, const Over& over);
  // Rank and size as the library has them.
  Result<std::pair<uint32_t, uint32_t>> seat();

  // Those of them that have pages of their own and are not enrolled yet, each once.
  // [rank's thread; does not block; may fail]
  Result<std::vector<Memory*>> not_enrolled(std::span<Memory* const> memories);
  // Lets the library read and write the pages of one of those themselves. [rank's thread; may block; may fail]
  Status enroll(Memory& memory);
  // The same as a window: every rank brings as many bytes, in the same order. TN_TIMEOUT. [all ranks; blocks; may fail]
  Status enroll_window(Memory& memory, const Patience& patience, const Over& over);

  // Ends it with the other ranks. [one thread; blocks; may fail]
  Status finalize(const Patience& patience);
  // Ends it here, and what is on its way. [any-thread; may block; cannot fail]
  void abort();

  // A word of device memory that belongs to it, for barriers. [rank's thread; may block; may fail]
  Result<CUdeviceptr> word();

 private:
  // The library's handle for memory; it may fill a window late, and leaves it null where nobody else is to be reached.
  struct Enrolled {
    void* buffer = nullptr;
    ncclWindow_t window = nullptr;
  };

  ncclConfig_t config() const;
  ncclComm_t take();
  void let_go_with(Memory& memory);
  void let_go(const Memory& memory);
  Status end_of(const Enrolled& enrolled, ncclComm_t comm) const;
  Status let_all_go();

  const Nccl& library_;
  const std::shared_ptr<Gpu> gpu_;
  const std::string name_;  // which the library may keep as a pointer
  std::mutex mutex_;        // of the library's communicator
  ncclComm_t native_ = nullptr;
  std::map<const Memory*, Enrolled> enrolled_{};
  std::deque<ncclComm_t> born_{};  // where splits are put, by the library's own thread
  std::unique_ptr<Storage> word_{};
};

}  // namespace tenon::cuda::comm
