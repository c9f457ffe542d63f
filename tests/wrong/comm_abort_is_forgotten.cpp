// SPDX-License-Identifier: Apache-2.0
// comm_abort_is_forgotten.cpp: an abort says TN_OK and does nothing.
#include "wrong_comm.hpp"

WRONG_COMM(tables) {
  tables.comm.abort = [](tn_comm*, tn_error*) { return int32_t{TN_OK}; };
}
