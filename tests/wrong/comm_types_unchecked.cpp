// SPDX-License-Identifier: Apache-2.0
// comm_types_unchecked.cpp: what is only moved is moved as bytes, and nobody compares the types.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    return wrong::submit_changed(c, s, ops, n, e, [](tn_comm_op& op, const wrong::Seat&) {
      const bool wide = op.dtype == TN_DTYPE_f32 || op.dtype == TN_DTYPE_i32;
      if (op.kind != TN_COMM_ALL_GATHER || !wide) return;
      op.dtype = TN_DTYPE_u8;
      op.count *= 4;
    });
  };
}
