// SPDX-License-Identifier: Apache-2.0
// comm_ignores_root.cpp: every broadcast comes from rank 0.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    return wrong::submit_changed(c, s, ops, n, e, [](tn_comm_op& op, const wrong::Seat& seat) {
      if (op.kind != TN_COMM_BROADCAST || op.peer < 0 || static_cast<uint32_t>(op.peer) >= seat.size) return;
      op.peer = 0;
      if (op.send.bytes < op.recv.bytes) op.send = op.recv;
    });
  };
}
