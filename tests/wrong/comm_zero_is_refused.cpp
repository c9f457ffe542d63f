// SPDX-License-Identifier: Apache-2.0
// comm_zero_is_refused.cpp: an operation of no element is an error.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    for (uint32_t i = 0; i < n; ++i) {
      const bool counts = ops[i].kind != TN_COMM_BARRIER && ops[i].kind != TN_COMM_ALL_TO_ALL_V;
      if (counts && ops[i].count == 0) return wrong::fail(e, TN_INVALID, "nothing to do: leave it out");
    }
    return wrong::right().comm.submit(c, s, ops, n, e);
  };
}
