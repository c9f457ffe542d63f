// SPDX-License-Identifier: Apache-2.0
// work.h: what stands for computing: arithmetic that waits for itself, in registers, the same for all contestants.
//
// Invariant: `turns` of it take the same time whoever asks, and longer where the processor has something else to do.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C"
#endif
    __attribute__((visibility("default"))) uint64_t
    tenon_bench_work(uint64_t turns);
