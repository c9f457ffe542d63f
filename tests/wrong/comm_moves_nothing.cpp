// SPDX-License-Identifier: Apache-2.0
// comm_moves_nothing.cpp: the result of an all_reduce arrives on rank 0 alone.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    return wrong::submit_changed(c, s, ops, n, e, [](tn_comm_op& op, const wrong::Seat& seat) {
      if (op.kind == TN_COMM_ALL_REDUCE && seat.rank != 0) op.recv = wrong::scratch(op.recv.bytes);
    });
  };
}
