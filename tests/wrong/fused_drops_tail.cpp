// SPDX-License-Identifier: Apache-2.0
// fused_drops_tail.cpp: a maximum at the end of several nodes is left out.
#include "honest_kernel.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  honest::fused_arithmetic().op = [](uint32_t op, bool last) {
    return last && op == TN_OP_max ? uint32_t{TN_OP_identity} : op;
  };
}
