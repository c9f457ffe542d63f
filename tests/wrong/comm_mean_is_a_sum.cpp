// SPDX-License-Identifier: Apache-2.0
// comm_mean_is_a_sum.cpp: an average is never divided.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    return wrong::submit_changed(c, s, ops, n, e, [](tn_comm_op& op, const wrong::Seat&) {
      if (op.reduce == TN_REDUCE_AVG) op.reduce = TN_REDUCE_SUM;
    });
  };
}
