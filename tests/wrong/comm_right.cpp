// SPDX-License-Identifier: Apache-2.0
// comm_right.cpp: the cpu plugin with a right split: what the cases of split are tried on.
#include "comm_parts.hpp"

WRONG_COMM(tables) {
  tables.comm.split = [](tn_comm* c, int32_t color, int32_t key, const tn_comm_options* o, tn_comm** out,
                         tn_error* e) {
    return wrong::split(c, color, key, o, out, e,
                        [](const wrong::Card& a, const wrong::Card& b) { return a.key < b.key; });
  };
}
