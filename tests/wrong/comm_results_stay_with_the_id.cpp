// SPDX-License-Identifier: Apache-2.0
// comm_results_stay_with_the_id.cpp: results of an all_reduce arrive only in the process that made the communicator's id.
#include "wrong_comm.hpp"

#include <set>

// Ids that were made here, and communicators whose ids were not.
static std::set<std::vector<std::byte>>& made() {
  static auto* const all =
      new std::set<std::vector<std::byte>>;  // outlives whatever the process destroys at its end
  return *all;
}
static std::set<tn_comm*>& foreign() {
  static auto* const all = new std::set<tn_comm*>;
  return *all;
}

static std::vector<std::byte> bytes_of(const void* id, uint64_t bytes) {
  const auto* const first = static_cast<const std::byte*>(id);
  return {first, first + bytes};
}

WRONG_COMM(tables) {
  tables.comm.make_id = [](tn_device* d, void* id, uint64_t bytes, tn_error* e) {
    const int32_t code = wrong::right().comm.make_id(d, id, bytes, e);
    const std::lock_guard lock(wrong::seats().mutex);
    if (code == TN_OK) made().insert(bytes_of(id, bytes));
    return code;
  };
  tables.comm.create = [](tn_device* d, uint32_t rank, uint32_t size, const void* id, uint64_t bytes,
                          const tn_comm_options* o, tn_comm** c, tn_error* e) {
    const int32_t code = wrong::create_known(d, rank, size, id, bytes, o, c, e);
    const std::lock_guard lock(wrong::seats().mutex);
    if (code == TN_OK && made().count(bytes_of(id, bytes)) == 0) foreign().insert(*c);
    return code;
  };
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    bool lost = false;
    {
      const std::lock_guard lock(wrong::seats().mutex);
      lost = foreign().count(c) != 0;
    }
    return wrong::submit_changed(c, s, ops, n, e, [lost](tn_comm_op& op, const wrong::Seat&) {
      if (lost && op.kind == TN_COMM_ALL_REDUCE && op.recv.bytes > 0) op.recv = wrong::scratch(op.recv.bytes);
    });
  };
}
