// SPDX-License-Identifier: Apache-2.0
// ipc_exports.cpp: listing, looking up, withdrawing.
#include "ipc_exports.hpp"

namespace tenon::cuda::ipc {

Result<Listing> Exports::add(Offer offer) {
  const Bits key = TN_TRY(drawn());
  const std::lock_guard lock(mutex_);
  if (door_ == nullptr) door_ = TN_TRY(Door::open([this](const Ask& ask) { return find(ask); }));
  const uint64_t number = ++last_;
  entries_.emplace(number, Entry{.key = key, .offer = std::move(offer)});
  return Listing{.door = door_->name(), .number = number, .key = key};
}

void Exports::withdraw(uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  entries_.erase(number);
}

// The thread is waited for without the lock, which it may want.
void Exports::rest() noexcept {
  std::unique_ptr<Door> ended;
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) ended = std::move(door_);
}

std::optional<Offer> Exports::find(const Ask& ask) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(ask.number);
  if (found == entries_.end()) return std::nullopt;
  const Bits& key = found->second.key;
  // All of it is compared, so that the time it takes tells nothing.
  if (((key[0] ^ ask.key[0]) | (key[1] ^ ask.key[1])) != 0) return std::nullopt;
  return found->second.offer;
}

}  // namespace tenon::cuda::ipc
