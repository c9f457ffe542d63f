// SPDX-License-Identifier: Apache-2.0
// by_table.hpp: communicators made as a host makes them, by the plugin's table, over a store that a case looks into.
//
// Invariant: what the plugin asks of its store is known before it is answered.
#pragma once

#include "processes.hpp"

#include <tenon/plugin.h>

#include <algorithm>
#include <cstring>

namespace comm_test {

// A store of which `asked` hears each key before it is looked for.
class OverheardStore {
 public:
  OverheardStore(Store store, std::function<void(std::string_view)> asked)
      : store_(std::move(store)), asked_(std::move(asked)) {}
  OverheardStore(const OverheardStore&) = delete;
  OverheardStore& operator=(const OverheardStore&) = delete;
  const tn_store* table() const { return &table_; }

 private:
  static int32_t set(void* context, const char* key, const void* data, uint64_t bytes, tn_error* error) {
    const Status done = static_cast<OverheardStore*>(context)->store_.set(
        key, std::string_view(static_cast<const char*>(data), bytes));
    return done.ok() ? TN_OK : write_error(done.error(), error);
  }
  static int32_t get(void* context, const char* key, void* data, uint64_t capacity, uint64_t* bytes,
                     uint64_t timeout_ns, tn_error* error) {
    auto& self = *static_cast<OverheardStore*>(context);
    self.asked_(key);
    const auto value = self.store_.get(key, Timeout(static_cast<int64_t>(timeout_ns)));
    if (!value.ok()) return write_error(value.error(), error);
    *bytes = value->size();
    std::memcpy(data, value->data(), std::min<uint64_t>(capacity, value->size()));
    return TN_OK;
  }

  Store store_;
  std::function<void(std::string_view)> asked_;
  tn_store table_{.header = {.size = sizeof(tn_store)}, .context = this, .set = set, .get = get};
};

// Of rank 0, which makes it; `store` carries it to the others.
inline Result<std::string> id_by_table(Device device, Store& store, uint32_t rank) {
  if (rank != 0) return store.get("id", std::chrono::seconds(60));
  const tn_comm_api& api = *device.plugin().comm;
  tn_error error = no_error();
  uint64_t bytes = 0;
  TN_TRY(status_of(api.id_bytes(device.handle(), &bytes, &error), error));
  std::string id(bytes, '\0');
  TN_TRY(status_of(api.make_id(device.handle(), id.data(), bytes, &error), error));
  TN_TRY(store.set("id", id));
  return id;
}

// Joins; the plugin is told of `store`. `made`: where to leave the communicator.
inline Status create_by_table(Device device, const std::string& id, uint32_t rank, uint32_t size,
                              Timeout timeout, const tn_store* store, uint32_t flags = 0,
                              tn_comm** made = nullptr) {
  tn_comm_options options{};
  options.size = sizeof options;
  options.flags = flags;
  options.timeout_ns = static_cast<uint64_t>(timeout.count());
  options.store = store;
  options.name = "table";
  tn_comm* comm = nullptr;
  tn_error error = no_error();
  return status_of(device.plugin().comm->create(device.handle(), rank, size, id.data(), id.size(), &options,
                                                made != nullptr ? made : &comm, &error),
                   error);
}

// On a stream of its own, to its end.
inline Status barrier_by_table(Device device, tn_comm* comm) {
  const tn_stream_api& streams = *device.plugin().stream;
  tn_stream_options options{};
  options.size = sizeof options;
  tn_stream* stream = nullptr;
  tn_error error = no_error();
  TN_TRY(status_of(streams.create(device.handle(), &options, &stream, &error), error));
  const CommOp barrier = CommOp::barrier();
  uint64_t value = 0;
  Status done = status_of(device.plugin().comm->submit(comm, stream, &barrier.abi, 1, &error), error);
  if (done.ok()) done = status_of(streams.record(stream, 0, &value, &error), error);
  if (done.ok()) done = status_of(streams.sync(stream, value, UINT64_MAX, &error), error);
  static_cast<void>(streams.destroy(stream, TN_DESTROY_ABANDON, &error));
  return done;
}

}  // namespace comm_test
