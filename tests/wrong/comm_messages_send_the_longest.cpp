// SPDX-License-Identifier: Apache-2.0
// comm_messages_send_the_longest.cpp: of several messages in a group each sends the beginning of the longest.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    tn_span longest{};
    for (uint32_t i = 0; i < n; ++i) {
      if (ops[i].kind == TN_COMM_SEND && ops[i].send.bytes > longest.bytes) longest = ops[i].send;
    }
    return wrong::submit_changed(c, s, ops, n, e, [&](tn_comm_op& op, const wrong::Seat&) {
      if (op.kind != TN_COMM_SEND || op.send.bytes == 0) return;
      const uint64_t bytes = op.send.bytes;
      op.send = longest;
      op.send.bytes = bytes;
    });
  };
}
