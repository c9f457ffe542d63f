// SPDX-License-Identifier: Apache-2.0
// max_swallows_nan.cpp: the greater of a NaN and a number is the number.
#include "honest_kernel.hpp"
#include "wrong.hpp"

#include <cmath>

WRONG_PLUGIN(tables) { honest::arithmetic().maximum = &std::fmax; }
