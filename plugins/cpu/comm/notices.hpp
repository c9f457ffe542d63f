// SPDX-License-Identifier: Apache-2.0
// notices.hpp: what ranks tell each other through the host's key-value store while a communicator is made.
//
// Invariant: every key carries the communicator's own number, so two of them on one store never read each other's.
#pragma once

#include "../driver.hpp"

#include <tenon/host.h>

#include <string>
#include <string_view>

namespace tenon::cpu::comm {

class Notices {
 public:
  // `store` may be nullptr: then there are none. It is borrowed.
  Notices(const tn_store* store, uint64_t number);

  explicit operator bool() const noexcept { return store_ != nullptr; }
  // Says it once. [any-thread; may block; may fail]
  Status post(const std::string& key, std::string_view value) const;
  // Waits for it. TN_TIMEOUT. [any-thread; blocks; may fail]
  Result<std::string> read(const std::string& key, uint64_t deadline) const;
  // Whether it is there. [any-thread; may block; cannot fail]
  bool has(const std::string& key) const;

 private:
  const tn_store* store_;
  std::string prefix_;
};

}  // namespace tenon::cpu::comm
