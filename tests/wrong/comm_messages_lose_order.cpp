// SPDX-License-Identifier: Apache-2.0
// comm_messages_lose_order.cpp: of several messages in a group the last is sent first.
#include "wrong_comm.hpp"

#include <algorithm>

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    std::vector<tn_comm_op> group(ops, ops + n), sends;
    for (const tn_comm_op& op : group) {
      if (op.kind == TN_COMM_SEND) sends.push_back(op);
    }
    for (tn_comm_op& op : group) {
      if (op.kind != TN_COMM_SEND) continue;
      op = sends.back();
      sends.pop_back();
    }
    return wrong::right().comm.submit(c, s, group.data(), n, e);
  };
}
