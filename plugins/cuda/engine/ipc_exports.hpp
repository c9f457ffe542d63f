// SPDX-License-Identifier: Apache-2.0
// ipc_exports.hpp: which memories of a device other processes may open.
//
// A door is opened with the first of them, and stays until the device is closed, or quiesced with nothing exported.
// Invariant: what has been withdrawn is given to nobody who asks afterwards.
#pragma once

#include "ipc_door.hpp"

#include <map>
#include <mutex>

namespace tenon::cuda::ipc {

// Whom to ask for an exported memory, and by what words.
struct Listing {
  Bits door{};
  uint64_t number = 0;
  Bits key{};
};

class Exports {
 public:
  // TN_NO_MEMORY. [any-thread; may block; may fail]
  Result<Listing> add(Offer offer);
  // [any-thread; does not block; cannot fail]
  void withdraw(uint64_t number) noexcept;
  // Ends the thread unless something is exported. [any-thread; may block; cannot fail]
  void rest() noexcept;

 private:
  struct Entry {
    Bits key{};
    Offer offer{};
  };
  std::optional<Offer> find(const Ask& ask);

  std::mutex mutex_{};  // of what follows; the door's thread takes it to look an ask up
  std::map<uint64_t, Entry> entries_{};
  uint64_t last_ = 0;
  std::unique_ptr<Door> door_{};  // ends first: its thread looks into the entries
};

}  // namespace tenon::cuda::ipc
