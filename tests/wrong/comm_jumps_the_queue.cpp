// SPDX-License-Identifier: Apache-2.0
// comm_jumps_the_queue.cpp: collectives run on a stream of the communicator's own, which does not wait for the caller's.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    const auto& right = wrong::right();
    const tn_stream_options options{sizeof(tn_stream_options), 0, "collectives", nullptr};
    tn_stream* own = nullptr;
    int32_t code = right.stream.create(wrong::seat_of(c).device, &options, &own, e);
    if (code != TN_OK) return code;
    uint64_t value = 0;
    code = right.comm.submit(c, own, ops, n, e);
    if (code == TN_OK) code = right.stream.record(own, 0, &value, e);
    if (code == TN_OK) code = right.stream.wait(s, own, value, e);
    right.stream.destroy(own, TN_DESTROY_COMPLETE, nullptr);
    return code;
  };
}
