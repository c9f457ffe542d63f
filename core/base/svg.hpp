// SPDX-License-Identifier: Apache-2.0
// svg.hpp: the parts of a picture: figures, rectangles and lines of text, as SVG has them.
//
// Invariant: what went through `escaped` is well-formed, whatever it was.
#pragma once

#include <string>
#include <string_view>

namespace tenon::base::svg {

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

// With one decimal after a point, whatever the locale. [any-thread; does not block; cannot fail]
std::string figure(double number);
// ASCII without markup, whatever `text` holds; what has no letter there is '?'. [any-thread; does not block; cannot fail]
std::string escaped(std::string_view text);
// A rectangle of class `kind`; with another `end` it can hold something. [any-thread; does not block; cannot fail]
std::string rectangle(std::string_view kind, const Box& box, int rounding, std::string_view end = "/>\n");
// A line of class `kind`; `line` is well-formed. [any-thread; does not block; cannot fail]
std::string text(std::string_view kind, double x, double y, std::string_view line);

}  // namespace tenon::base::svg
