// SPDX-License-Identifier: Apache-2.0
// wrong_comm.hpp: how a plugin with wrong communicators is written: the cpu plugin's tables, with a mistake put in.
//
//   #include "wrong_comm.hpp"
//   WRONG_COMM(tables) { tables.comm.submit = […](…) { … wrong::right().comm.submit(…) … }; }
//
// Invariant: everything that is not exchanged is the cpu plugin's, handles included.
#pragma once

#include "wrong_cpu.hpp"

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <vector>

namespace wrong {

// What a mistake knows of a communicator, from its creation on.
struct Seat {
  tn_device* device = nullptr;
  uint32_t rank = 0, size = 1;
};

struct Seats {
  std::mutex mutex;
  std::map<tn_comm*, Seat> by_comm;
  std::list<std::vector<std::byte>> scratch;
};
inline Seats& seats() {
  static Seats* const all = new Seats;  // outlives whatever the process destroys at its end
  return *all;
}
inline Seat seat_of(tn_comm* comm) {
  const std::lock_guard lock(seats().mutex);
  return seats().by_comm[comm];
}

// Memory that a mistake works in, for the life of the process.
inline tn_span scratch(uint64_t bytes) {
  const std::lock_guard lock(seats().mutex);
  std::byte* const at = seats().scratch.emplace_back(bytes).data();
  return {nullptr, reinterpret_cast<uintptr_t>(at), bytes, TN_SPACE_DEVICE_ADDRESS, 0};
}

// Where a span lies in this process: the cpu plugin's memory has addresses.
inline std::byte* address_of(const tn_span& span) {
  uint64_t base = 0;
  if (span.space == TN_SPACE_MEMORY) right().device.address(span.memory, &base, nullptr);
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(base + span.offset));
}

// A submit of the group with each operation changed by `change`, which knows rank and size.
template <class Change>
int32_t submit_changed(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count,
                       tn_error* error, Change&& change) {
  std::vector<tn_comm_op> group(ops, ops + count);
  const Seat seat = seat_of(comm);
  for (tn_comm_op& op : group) change(op, seat);
  return right().comm.submit(comm, stream, group.data(), count, error);
}

inline int32_t create_known(tn_device* device, uint32_t rank, uint32_t size, const void* id,
                            uint64_t id_bytes, const tn_comm_options* options, tn_comm** comm,
                            tn_error* error) {
  const int32_t code = right().comm.create(device, rank, size, id, id_bytes, options, comm, error);
  const std::lock_guard lock(seats().mutex);
  if (code == TN_OK) seats().by_comm[*comm] = {device, rank, size};
  return code;
}

}  // namespace wrong

#define WRONG_COMM(tables)                                                                      \
  static void wrong_spoil_comm(::wrong::Tables& tables);                                        \
  extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) { \
    return ::wrong::enter_cpu(host, error, [](::wrong::Tables& all) {                           \
      all.comm.create = &::wrong::create_known;                                                 \
      wrong_spoil_comm(all);                                                                    \
    });                                                                                         \
  }                                                                                             \
  static void wrong_spoil_comm([[maybe_unused]] ::wrong::Tables& tables)
