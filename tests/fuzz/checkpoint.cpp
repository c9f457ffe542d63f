// SPDX-License-Identifier: Apache-2.0
// Checkpoints under libFuzzer.
#include "fuzz/keep.hpp"
#include "fuzz/promises.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return tenon::test::keep(tenon::test::broken_checkpoint_promise, data, size);
}
