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
};

// [any-thread; does not block; cannot fail]
std::vector<Line> lines_of(const std::string& text, const std::string& file);

}  // namespace tenon::tool
