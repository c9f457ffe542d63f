// SPDX-License-Identifier: Apache-2.0
// The text form under libFuzzer: any bytes are refused with a place or read as a graph that reads again as itself.
#include "text_property.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string broken = tenon::test::broken_promise({reinterpret_cast<const char*>(data), size});
  if (broken.empty()) return 0;
  std::fprintf(stderr, "%s\n", broken.c_str());
  std::abort();
}
