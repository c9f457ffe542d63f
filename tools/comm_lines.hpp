// SPDX-License-Identifier: Apache-2.0
// comm_lines.hpp: a file of words in lines. Invariant: what is empty or behind '#' is no line.
#pragma once

#include <tenon/result.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::tool {

struct Line {
  std::string file{};
  uint64_t number_in_file = 0;  // from 1
  std::vector<std::string> words{};

  // TN_INVALID, "file: line 3: why". [any-thread; does not block; cannot fail]
  Status wrong(const std::string& why) const;
  // The word at `at`: a finite number, not negative. [any-thread; does not block; may fail]
  Result<double> number(size_t at) const;
  // The same word of elements or bytes: a whole number from 1 to 2^40. [any-thread; does not block; may fail]
  Result<uint64_t> count(size_t at) const;
  // The same word of a time, of ms, in ns. [any-thread; does not block; may fail]
  Result<double> time(size_t at) const {
    return TN_TRY(number(at))
    *1e6;
  }
};

// [any-thread; does not block; cannot fail]
std::vector<Line> lines_of(const std::string& text, const std::string& file);

}  // namespace tenon::tool
