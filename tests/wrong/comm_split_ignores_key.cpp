// SPDX-License-Identifier: Apache-2.0
// comm_split_ignores_key.cpp: the ranks of a part keep the order that they had.
#include "comm_parts.hpp"

WRONG_COMM(tables) {
  tables.comm.split = [](tn_comm* c, int32_t color, int32_t key, const tn_comm_options* o, tn_comm** out,
                         tn_error* e) {
    return wrong::split(c, color, key, o, out, e,
                        [](const wrong::Card&, const wrong::Card&) { return false; });
  };
}
