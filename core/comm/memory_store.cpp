// SPDX-License-Identifier: Apache-2.0
// memory_store.cpp: the store of ranks that are threads of one process.
#include "comm/entries.hpp"
#include "comm/store.hpp"

namespace tenon::comm {
namespace {

struct MemoryStore final : detail::StoreState {
  MemoryStore() { address = "this process"; }
  Status set(std::string_view key, std::string_view value, const base::Deadline&) override {
    return entries.add(key, value) ? Status() : taken(key, address);
  }
  Result<std::string> get(std::string_view key, const base::Deadline& deadline) override {
    auto value = entries.find(key, deadline);
    if (!value) return missing(key, address);
    return *std::move(value);
  }
  Result<std::optional<std::string>> look(std::string_view key, const base::Deadline&) override {
    return entries.find(key, base::Deadline(std::chrono::nanoseconds(0)));
  }
  Entries entries;
};

}  // namespace

std::shared_ptr<detail::StoreState> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace tenon::comm
