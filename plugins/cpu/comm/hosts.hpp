// SPDX-License-Identifier: Apache-2.0
// hosts.hpp: which rank is on which host.
//
// Ranks are on one host when they can share memory: one boot of one kernel, one space of process numbers, and no other
// name given with the option `host`.
// Invariant: it follows from what all ranks said of themselves, so it is the same on all of them.
#pragma once

#include "notices.hpp"
#include "system.hpp"

#include <vector>

namespace tenon::cpu::comm {

// What the options say of this process.
struct Where {
  // The memory of other ranks on this host, where it has no address here.
  enum class Reads : uint8_t { where_quick, large, always, never };
  std::string host{};  // this host's name; "": the system's
  std::string interface {
  };  // over which other hosts are reached: a name, or an address of this machine; "": none said
  Reads reads = Reads::where_quick;
};

class Hosts {
 public:
  // Tells the others where `rank` is, and hears where they are. TN_TIMEOUT names who is missing; TN_MISMATCH when one was
  // told of another number of ranks. [all ranks; blocks; may fail]
  static Result<Hosts> meet(const Notices& notices, const system::Place& place, const Where& where,
                            uint32_t rank, uint32_t size, uint64_t deadline);

  uint32_t count() const noexcept { return static_cast<uint32_t>(ranks_.size()); }
  uint32_t host_of(uint32_t rank) const noexcept { return host_of_[rank]; }
  const std::vector<uint32_t>& ranks_of(uint32_t host) const noexcept { return ranks_[host]; }
  // The rank of `host` that receives for all of it what `sender` sends there.
  uint32_t agent(uint32_t host, uint32_t sender) const noexcept {
    return ranks_[host][place_[sender] % ranks_[host].size()];
  }
  // "process 12 on host b" for ranks on other hosts than `rank`, else "".
  std::vector<std::string> abroad(uint32_t rank) const;
  // All are in one network of one machine, so its loopback reaches them.
  bool one_network() const noexcept { return one_network_; }

 private:
  std::vector<uint32_t> host_of_{}, place_{};   // of each rank; its place among the ranks of its host
  std::vector<std::vector<uint32_t>> ranks_{};  // of each host
  std::vector<std::string> words_{};            // of each rank
  bool one_network_ = true;
};

}  // namespace tenon::cpu::comm
