// SPDX-License-Identifier: Apache-2.0
// keep.hpp: a promise as libFuzzer asks it: one that is broken is told and ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tenon::test {

inline int keep(std::string (*broken)(std::string_view), const uint8_t* data, size_t size) {
  const std::string words = broken({reinterpret_cast<const char*>(data), size});
  if (words.empty()) return 0;
  std::fprintf(stderr, "a promise is broken: %s\n", words.c_str());
  std::abort();
}

}  // namespace tenon::test
