// SPDX-License-Identifier: Apache-2.0
// curves.cpp: see curves.hpp.
#include "common/curves.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace sample {
namespace {

constexpr double width = 720, height = 200, margin = 60;

void panel(std::ostream& out, const Curve& curve, double top) {
  const auto [least, most] = std::minmax_element(curve.values.begin(), curve.values.end());
  const double low = std::min(0.0, *least), high = std::max(*most, low + 1e-9);
  const double steps = std::max(1.0, static_cast<double>(curve.values.size() - 1));
  out << "<text x='" << margin << "' y='" << top - 8 << "'>" << curve.title << "</text>\n"
      << "<text x='" << margin - 6 << "' y='" << top + 10 << "' text-anchor='end'>" << high << "</text>\n"
      << "<text x='" << margin - 6 << "' y='" << top + height << "' text-anchor='end'>" << low << "</text>\n"
      << "<rect x='" << margin << "' y='" << top << "' width='" << width << "' height='" << height
      << "' fill='none' stroke='#bbb'/>\n<polyline fill='none' stroke='#2563eb' stroke-width='1.5' points='";
  for (size_t i = 0; i < curve.values.size(); ++i) {
    out << margin + width * static_cast<double>(i) / steps << ','
        << top + height * (1 - (curve.values[i] - low) / (high - low)) << ' ';
  }
  out << "'/>\n<text x='" << margin + width << "' y='" << top + height + 16 << "' text-anchor='end'>step "
      << curve.values.size() << "</text>\n";
}

}  // namespace

tenon::Status write_curves(const std::string& file, const std::vector<Curve>& curves) {
  std::ostringstream svg;
  const double each = height + margin;
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='" << width + 2 * margin << "' height='"
      << each * static_cast<double>(curves.size()) + margin / 2
      << "' font-family='sans-serif' font-size='12'>\n";
  for (size_t i = 0; i < curves.size(); ++i) {
    if (!curves[i].values.empty()) panel(svg, curves[i], margin / 2 + each * static_cast<double>(i));
  }
  svg << "</svg>\n";
  std::ofstream out(file);
  out << svg.str();
  out.close();
  if (!out) return {TN_INVALID, "cannot write '" + file + "': give a file in a folder that is there"};
  return {};
}

}  // namespace sample
