// SPDX-License-Identifier: Apache-2.0
// sum_in_half.cpp: a sum is kept in eight bits of precision.
#include "honest_kernel.hpp"
#include "rounded.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) { honest::arithmetic().sum = wrong::rounded_sum; }
