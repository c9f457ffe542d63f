// SPDX-License-Identifier: Apache-2.0
// comm_barrier_passes.cpp: a barrier waits for nobody.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    std::vector<tn_comm_op> group;
    for (uint32_t i = 0; i < n; ++i) {
      if (ops[i].kind != TN_COMM_BARRIER) group.push_back(ops[i]);
    }
    return wrong::right().comm.submit(c, s, group.data(), static_cast<uint32_t>(group.size()), e);
  };
}
