// SPDX-License-Identifier: Apache-2.0
// sums.hpp: floats added at the width of this machine, for contestants that bring no sum of their own.
#pragma once

#include <cstddef>

namespace bench {

// to[i] = a[i] + b[i]; `to` may be either.
void add(float* to, const float* a, const float* b, size_t count);
// Each of `size` arrays gets the sum of all of them.
void add_all(float* const* arrays, size_t size, size_t begin, size_t end);

}  // namespace bench
