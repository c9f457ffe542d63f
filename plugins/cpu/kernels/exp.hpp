// SPDX-License-Identifier: Apache-2.0
// exp.hpp: e^x of x ≤ 0, or little above, for loops that the compiler vectorises, and may contract.
//
// Invariant: formulas.hpp's: off by no more than 2 ULP; e^-∞ = 0, NaN stays NaN; e^0 = 1.
#pragma once

#include "formulas.hpp"

namespace tenon::cpu {

template <class T>
TENON_CPU_LOOP T fast_exp_of_negative(T x) {
  return formulas::exp_of_negative(Scalar<T, false>(x)).v;
}

}  // namespace tenon::cpu
