// SPDX-License-Identifier: Apache-2.0
// apart.hpp: a device whose communicators connect no two ranks and check nothing: only the store is between them.
//
// They are pairs of the cpu plugin: a rank, and one that never comes. So work does not end by itself, and the plugin carries nothing from
// one rank to another. Invariant: what is submitted never ends, whatever it is, except for a broadcast, which does nothing.
#pragma once

#include "ranks.hpp"

#include "runtime/device_state.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <utility>
#include <vector>

namespace comm_test {

// The device's own tables, and those who never come.
struct Apart {
  const tn_comm_api* own = nullptr;
  std::mutex mutex{};
  std::vector<tn_comm*> absent{};
};
inline Apart& apart() {
  static Apart* const all = new Apart;
  return *all;
}

inline int32_t create_apart(tn_device* device, uint32_t, uint32_t, const void*, uint64_t bytes,
                            const tn_comm_options* options, tn_comm** out, tn_error* error) {
  const tn_comm_api& own = *apart().own;
  std::vector<char> id(bytes);
  tn_comm_options later = *options;
  later.flags |= TN_COMM_NON_BLOCKING;
  tn_comm* other = nullptr;
  int32_t code = own.make_id(device, id.data(), bytes, error);
  if (code == TN_OK) code = own.create(device, 1, 2, id.data(), bytes, &later, &other, error);
  if (code == TN_OK) code = own.create(device, 0, 2, id.data(), bytes, options, out, error);
  const std::lock_guard lock(apart().mutex);
  if (other != nullptr) apart().absent.push_back(other);
  return code;
}

// Nobody waits for a broadcast here.
inline int32_t submit_apart(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t,
                            tn_error* error) {
  if (ops->kind == TN_COMM_BROADCAST) return TN_OK;
  const CommOp barrier = CommOp::barrier();
  return apart().own->submit(comm, stream, &barrier.abi, 1, error);
}

// A cpu device with such communicators.
class PairsOnly {
 public:
  explicit PairsOnly(Timeout limit) : limit_(limit) {
    Result<Runtime> opened = comm_test::runtime();
    REQUIRE_MESSAGE(opened.ok(), opened.message());
    tenon_ = *opened;
    Result<Device> cpu = tenon_.device("cpu");
    REQUIRE_MESSAGE(cpu.ok(), cpu.message());
    plugin_ = *cpu->state()->plugin;
    apart().own = plugin_.comm;
    table_ = *plugin_.comm;
    table_.create = create_apart;
    table_.submit = submit_apart;
    plugin_.comm = &table_;
    auto made =
        tenon::runtime::open_device({.plugin = &plugin_, .name = "apart:0", .log = cpu->state()->log});
    REQUIRE_MESSAGE(made.ok(), made.message());
    device = Device(*made);
  }
  ~PairsOnly() {
    for (tn_comm* const comm : std::exchange(apart().absent, {})) apart().own->destroy(comm, 0, nullptr);
  }
  Result<Rank> rank(uint32_t r, uint32_t size) { return rank(r, size, {.timeout = limit_}); }
  Result<Rank> rank(uint32_t r, uint32_t size, CommOptions options) {
    return join(device, store, r, size, std::move(options));
  }

 private:
  const Timeout limit_;
  Runtime tenon_{};
  tn_plugin plugin_{};
  tn_comm_api table_{};

 public:
  Device device;
  Store store = Store::in_process();
};

}  // namespace comm_test
