// SPDX-License-Identifier: Apache-2.0
// fused_rounds_inner.cpp: what one node hands to the next is rounded to eight bits.
#include "honest_kernel.hpp"
#include "rounded.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  honest::fused_arithmetic().inner = [](float x) { return wrong::rounded(x, 7); };
}
