// SPDX-License-Identifier: Apache-2.0
// comm_scatter_drops_tail.cpp: a reduce_scatter of an odd count leaves its last element out.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    const bool mine = n == 1 && ops->kind == TN_COMM_REDUCE_SCATTER && ops->count % 2 == 1;
    if (!mine) return wrong::right().comm.submit(c, s, ops, n, e);
    tn_comm_op scatter = *ops;
    scatter.recv = wrong::scratch(ops->recv.bytes);
    const int32_t code = wrong::right().comm.submit(c, s, &scatter, 1, e);
    if (code != TN_OK) return code;
    tn_span to = ops->recv, from = scatter.recv;
    to.bytes = from.bytes = ops->recv.bytes / ops->count * (ops->count - 1);
    return wrong::right().stream.copy(s, &to, &from, e);
  };
}
