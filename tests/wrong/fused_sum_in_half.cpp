// SPDX-License-Identifier: Apache-2.0
// fused_sum_in_half.cpp: a sum among other nodes is kept in eight bits of precision; alone it is right.
#include "honest_kernel.hpp"
#include "rounded.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) { honest::fused_arithmetic().sum = wrong::rounded_sum; }
