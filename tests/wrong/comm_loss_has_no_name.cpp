// SPDX-License-Identifier: Apache-2.0
// comm_loss_has_no_name.cpp: a lost rank is told, but not which.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.stream.sync = [](tn_stream* s, uint64_t value, uint64_t timeout_ns, tn_error* e) {
    const int32_t code = wrong::right().stream.sync(s, value, timeout_ns, e);
    return code == TN_PEER_LOST ? wrong::fail(e, code, "somebody is gone") : code;
  };
}
