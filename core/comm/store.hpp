// SPDX-License-Identifier: Apache-2.0
// store.hpp: what every kind of store is, and the shape in which plugins see it.
//
// Invariant: a key is written once and never changes, so a value that was read once may be trusted for ever.
#pragma once

#include "base/clock.hpp"

#include <tenon/comm.hpp>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace tenon::detail {

struct StoreState {
  StoreState();
  StoreState(const StoreState&) = delete;
  StoreState& operator=(const StoreState&) = delete;
  virtual ~StoreState() = default;

  // Keys and sizes were checked. TN_INVALID for a key that is there; TN_PEER_LOST, TN_TIMEOUT when the store has gone or
  // does not answer: then the key may still be set. [any-thread; may block; may fail]
  virtual Status set(std::string_view key, std::string_view value, const base::Deadline& deadline) = 0;
  virtual Result<std::string> get(std::string_view key, const base::Deadline& deadline) = 0;
  // The value, or none if the key is not there now. The deadline is for the store's answer, so a failure is always the store's.
  // [any-thread; may block; may fail]
  virtual Result<std::optional<std::string>> look(std::string_view key, const base::Deadline& deadline) = 0;
  // Waits for the key until the deadline; none: the store has said that it is not there. [any-thread; blocks; may fail]
  Result<std::optional<std::string>> await(std::string_view key, const base::Deadline& deadline);
  // Whether others reach this store through this process. [any-thread; does not block; cannot fail]
  virtual bool serves() const noexcept { return false; }

  // How often this rank has asked for that name here before: the same on all ranks that made the same.
  // [any-thread; does not block; cannot fail]
  uint64_t next(const std::string& name, uint32_t rank);
  // The same where who counts may pass some over: how far it has come, and that it has come further.
  // [any-thread; does not block; cannot fail]
  uint64_t made(const std::string& name, uint32_t rank);
  void has_made(const std::string& name, uint32_t rank, uint64_t count);

  std::string address;
  std::string server{};  // who serves it, in words; "" where nobody need
  std::string
      listens{};  // where this process serves it, in numbers; "" where it does not, or the address has them
  tn_store table{};

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, uint32_t>, uint64_t> made_;
};

}  // namespace tenon::detail

namespace tenon::comm {

inline constexpr size_t longest_key = 512;
inline constexpr size_t largest_value = 1 << 20;

// TN_INVALID for a key or value past the limits.
Status check_entry(std::string_view key, std::string_view value);
Status taken(std::string_view key, const std::string& address);
Status missing(std::string_view key, const std::string& address);

// The kinds, each in its own file.
std::shared_ptr<detail::StoreState> make_memory_store();
Result<std::shared_ptr<detail::StoreState>> make_folder_store(const std::string& path);
Result<std::shared_ptr<detail::StoreState>> make_tcp_server(const std::string& address,
                                                            const std::string& token);
Result<std::shared_ptr<detail::StoreState>> make_tcp_client(const std::string& address,
                                                            const std::string& token, Timeout timeout);

}  // namespace tenon::comm
