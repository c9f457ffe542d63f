// SPDX-License-Identifier: Apache-2.0
// comm_abort_hangs.cpp: an abort waits until the work in flight has ended by itself.
#include "wrong_comm.hpp"

#include <unistd.h>

WRONG_COMM(tables) {
  tables.comm.abort = [](tn_comm* c, tn_error* e) {
    while (wrong::right().comm.health(c, nullptr) == TN_OK) usleep(1000);
    return wrong::right().comm.abort(c, e);
  };
}
