// SPDX-License-Identifier: Apache-2.0
// svg.cpp: see svg.hpp.
#include "base/svg.hpp"

#include <array>
#include <charconv>

namespace tenon::base::svg {

std::string figure(double number) {
  std::array<char, 40> digits{};
  return {
      digits.data(),
      std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::fixed, 1).ptr};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out;
}

std::string rectangle(std::string_view kind, const Box& box, int rounding, std::string_view end) {
  std::string out = "<rect class=\"";
  out.append(kind).append("\" x=\"" + figure(box.x) + "\" y=\"" + figure(box.y) + "\" width=\"");
  out += figure(box.width) + "\" height=\"" + figure(box.height) + "\" rx=\"" + std::to_string(rounding);
  return out.append("\"").append(end);
}

std::string text(std::string_view kind, double x, double y, std::string_view line) {
  std::string out = "<text class=\"";
  out.append(kind).append("\" x=\"" + figure(x) + "\" y=\"" + figure(y) + "\">");
  return out.append(line).append("</text>\n");
}

}  // namespace tenon::base::svg
