// SPDX-License-Identifier: Apache-2.0
// comm_claims_fragments.cpp: the plugin declares FRAGMENT_COLLECTIVES, and its kernels know none.
#include "wrong_comm.hpp"

WRONG_COMM(tables) { tables.plugin.features |= TN_FEATURE_FRAGMENT_COLLECTIVES; }
