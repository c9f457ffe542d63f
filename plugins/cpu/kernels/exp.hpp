// SPDX-License-Identifier: Apache-2.0
// exp.hpp: e^x for loops that the compiler vectorises, and may contract.
//
// Invariant: formulas.hpp's: off by no more than 2 ULP; e^-∞ = 0, e^∞ = ∞, NaN stays NaN; e^0 = 1.
#pragma once

#include "formulas.hpp"

namespace tenon::cpu {

TENON_CPU_LOOP float fast_exp(float x) { return formulas::exp(Scalar<float, false>(x)).v; }
TENON_CPU_LOOP double fast_exp(double x) { return formulas::exp(Scalar<double, false>(x)).v; }

// The same of x ≤ 0, for less.
template <class T>
TENON_CPU_LOOP T fast_exp_of_negative(T x) {
  return formulas::exp_of_negative(Scalar<T, false>(x)).v;
}

}  // namespace tenon::cpu
