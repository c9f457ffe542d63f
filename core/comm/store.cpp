// SPDX-License-Identifier: Apache-2.0
// store.cpp: the gates of Store, and the trampolines that plugins call.
#include "comm/store.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::detail {
namespace {

StoreState& state_of(void* context) noexcept { return *static_cast<StoreState*>(context); }

template <class Body>
int32_t guarded(tn_error* error, Body&& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? TN_OK : write_error(status.error(), error);
  } catch (...) {
    return write_error({.code = TN_NO_MEMORY, .message = "no host memory for the store"}, error);
  }
}

int32_t table_set(void* context, const char* key, const void* data, uint64_t bytes,
                  tn_error* error) noexcept {
  return guarded(error, [&]() -> Status {
    const std::string_view value(static_cast<const char*>(data), bytes);
    TN_TRY(comm::check_entry(key, value));
    return state_of(context).set(key, value, base::Deadline(default_comm_timeout));
  });
}

int32_t table_get(void* context, const char* key, void* data, uint64_t capacity, uint64_t* bytes,
                  uint64_t timeout_ns, tn_error* error) noexcept {
  return guarded(error, [&]() -> Status {
    TN_TRY(comm::check_entry(key, {}));
    const auto most = static_cast<uint64_t>(INT64_MAX);
    const Timeout timeout(static_cast<int64_t>(std::min(timeout_ns, most)));
    const std::string value = TN_TRY(state_of(context).get(key, base::Deadline(timeout)));
    if (bytes != nullptr) *bytes = value.size();
    if (data != nullptr) std::memcpy(data, value.data(), std::min<uint64_t>(capacity, value.size()));
    return {};
  });
}

}  // namespace

StoreState::StoreState()
    : table{.header = {.size = sizeof(tn_store), .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR},
            .context = this,
            .set = table_set,
            .get = table_get} {}

// A get that ran out of time may be one whose connection did, so only a look tells that the key is missing.
Result<std::optional<std::string>> StoreState::await(std::string_view key, const base::Deadline& deadline) {
  if (!deadline.passed()) {
    auto value = get(key, deadline);
    if (value.ok()) return std::optional(*std::move(value));
    if (value.code() != TN_TIMEOUT) return std::move(value).failure();
  }
  return look(key, base::Deadline(std::chrono::seconds(1)));
}

uint64_t StoreState::next(const std::string& name, uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return made_[{name, rank}]++;
}

uint64_t StoreState::made(const std::string& name, uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return made_[{name, rank}];
}

void StoreState::has_made(const std::string& name, uint32_t rank, uint64_t count) {
  const std::lock_guard lock(mutex_);
  made_[{name, rank}] = count;
}

}  // namespace tenon::detail

namespace tenon::comm {

Status check_entry(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > longest_key) {
    return Status(TN_INVALID, "a store's key has 1 to " + std::to_string(longest_key) + " bytes; " +
                                  base::quoted(key) + " has " + std::to_string(key.size()));
  }
  if (value.size() > largest_value) {
    return Status(TN_INVALID, "a store's value has at most " + std::to_string(largest_value) +
                                  " bytes; that of " + base::quoted(key) + " has " +
                                  std::to_string(value.size()));
  }
  return {};
}

Status taken(std::string_view key, const std::string& address) {
  return Status(TN_INVALID, "key " + base::quoted(key) + " is in the store " + address +
                                " already: keys are written once; a new run needs a new store");
}

Status missing(std::string_view key, const std::string& address) {
  return Status(TN_TIMEOUT, "key " + base::quoted(key) + " did not appear in the store " + address +
                                " in time: was the rank that sets it started?");
}

}  // namespace tenon::comm

namespace tenon {

Store Store::in_process() { return Store(comm::make_memory_store()); }

Result<Store> Store::in_folder(const std::string& path) {
  return Store(TN_TRY(comm::make_folder_store(path)));
}

Result<Store> Store::serve(const std::string& address, const std::string& token) {
  return Store(TN_TRY(comm::make_tcp_server(address, token)));
}

Result<Store> Store::connect(const std::string& address, const std::string& token, Timeout timeout) {
  return Store(TN_TRY(comm::make_tcp_client(address, token, timeout)));
}

Status Store::set(std::string_view key, std::string_view value, Timeout timeout) {
  TN_TRY(comm::check_entry(key, value));
  return state_->set(key, value, base::Deadline(timeout));
}

Result<std::string> Store::get(std::string_view key, Timeout timeout) {
  TN_TRY(comm::check_entry(key, {}));
  return state_->get(key, base::Deadline(timeout));
}

const std::string& Store::address() const noexcept { return state_->address; }
const tn_store& Store::table() const noexcept { return state_->table; }

}  // namespace tenon
