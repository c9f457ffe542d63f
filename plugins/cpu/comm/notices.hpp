// SPDX-License-Identifier: Apache-2.0
// notices.hpp: what ranks tell each other through the host's key-value store while a communicator is made.
//
// Invariant: every key carries the communicator's own number, so two of them on one store never read each other's.
#pragma once

#include "../driver.hpp"

#include <tenon/host.h>

#include <atomic>
#include <string>
#include <string_view>

namespace tenon::cpu::comm {

class Notices {
 public:
  // `store` may be nullptr: then there are none. `cancelled`, when there is one, ends what is read. Both are borrowed.
  Notices(const tn_store* store, uint64_t number, const std::atomic<bool>* cancelled);

  explicit operator bool() const noexcept { return store_ != nullptr; }
  // Whoever asks has given up. [any-thread; does not block; cannot fail]
  bool cancelled() const noexcept { return cancelled_ != nullptr && cancelled_->load(); }
  // Says it once. TN_INVALID when it is said already. [any-thread; may block; may fail]
  Status post(const std::string& key, std::string_view value) const;
  // Waits for it. TN_TIMEOUT, TN_ABORTED. [any-thread; blocks; may fail]
  Result<std::string> read(const std::string& key, uint64_t deadline) const;
  // Whether it is there; a store over a network needs a moment to say so, and says no by silence.
  // [any-thread; blocks; cannot fail]
  bool has(const std::string& key, uint64_t patience_ns) const;

 private:
  Result<std::string> look(const std::string& key, uint64_t patience_ns) const;

  const tn_store* store_;
  const std::atomic<bool>* cancelled_;
  std::string prefix_;
};

}  // namespace tenon::cpu::comm
