// SPDX-License-Identifier: Apache-2.0
// rows.hpp: the rows of this suite, and the allocations counted for them.
#pragma once

#include "../row.hpp"

#include <tenon/device.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>

namespace bench {

// Allocations by operator new since the start, of all threads.
uint64_t allocations();

// The CPU plugin's first device. [any-thread; may block; may fail]
tenon::Result<tenon::Device> cpu();

void launch_rows();
void author_rows();
void pool_rows();
void stream_rows();
void supports_rows();

}  // namespace bench
