// SPDX-License-Identifier: Apache-2.0
// add_is_an_ulp_off.cpp: an addition gives the next float below.
#include "honest_kernel.hpp"
#include "wrong.hpp"

#include <cmath>

WRONG_PLUGIN(tables) {
  honest::arithmetic().add = [](float a, float b) {
    const float sum = a + b;
    return std::isfinite(sum) ? std::nextafter(sum, -INFINITY) : sum;
  };
}
