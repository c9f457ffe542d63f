// SPDX-License-Identifier: Apache-2.0
// rows.hpp: the rows of this suite, and the allocations counted for them.
#pragma once

#include "../row.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>

namespace bench {

// Allocations by operator new since the start, of all threads.
uint64_t allocations();

void launch_rows();
void author_rows();
void pool_rows();
void stream_rows();

}  // namespace bench
