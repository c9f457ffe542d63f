// SPDX-License-Identifier: Apache-2.0
// curves.hpp: loss and speed over the steps, as a picture.
#pragma once

#include <tenon/result.hpp>

#include <string>
#include <vector>

namespace sample {

struct Curve {
  std::string title{};
  std::vector<double> values{};  // one for each step
};

// An SVG file with one panel for each curve. TN_INVALID naming the file. [any-thread; may block; may fail]
tenon::Status write_curves(const std::string& file, const std::vector<Curve>& curves);

}  // namespace sample
