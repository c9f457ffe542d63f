// SPDX-License-Identifier: Apache-2.0
// words.hpp: sentences put together from parts, the same everywhere in the kit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

namespace tenon::conform {

// The parts, one after another, as operator<< writes them. [any-thread; does not block; may throw bad_alloc]
template <class... Parts>
std::string words(const Parts&... parts) {
  std::ostringstream out;
  static_cast<void>((out << ... << parts));
  return std::move(out).str();
}

// "0x1f". [any-thread; does not block; may throw bad_alloc]
inline std::string hex(uint64_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << value;
  return std::move(out).str();
}

}  // namespace tenon::conform
