// SPDX-License-Identifier: Apache-2.0
// comm_in_place_clears_first.cpp: an all_reduce clears its result before it reads, also where that is what it reads.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    for (uint32_t i = 0; i < n; ++i) {
      if (ops[i].kind == TN_COMM_ALL_REDUCE) wrong::right().stream.fill(s, &ops[i].recv, 0, 1, nullptr);
    }
    return wrong::right().comm.submit(c, s, ops, n, e);
  };
}
