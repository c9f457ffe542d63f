// SPDX-License-Identifier: Apache-2.0
// apart.cpp: the graph's text, with one of its lines written anew.
#include "apart.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace bench {
namespace {

using tenon::Status;

constexpr std::string_view called = " = check_finite_and_unscale(";

// "%a, %b", where commas in shapes have no space behind them.
std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(", ", at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return out;
}

// "%training.found_inf: f32[]" with something behind its name.
std::string numbered(const std::string& output, size_t number) {
  const size_t colon = output.find(':');
  return output.substr(0, colon) + "." + std::to_string(number) + output.substr(colon);
}
std::string name_of(const std::string& output) { return output.substr(0, output.find(':')); }

std::string apart(const std::string& line) {
  const size_t at = line.find(called), first = at + called.size();
  const std::vector<std::string> made = listed(line.substr(0, at)),
                                 read = listed(line.substr(first, line.find(')', first) - first));
  const std::string& found = made.front();
  std::string out, greatest = name_of(numbered(found, 1));
  for (size_t i = 1; i < made.size(); ++i) {
    out += numbered(found, i) + ", " + made[i];
    out += std::string(called) + read[0] + ", " + read[i] + ")\n";
  }
  for (size_t i = 2; i < made.size(); ++i) {
    const std::string next = i + 1 == made.size() ? found : numbered(found, made.size() + i);
    out += next + " = max(" + greatest + ", " + name_of(numbered(found, i)) + ")\n";
    greatest = name_of(next);
  }
  return out;
}

}  // namespace

tenon::Result<tenon::Graph> checked_apart(const tenon::Graph& step) {
  std::istringstream lines(step.text());
  std::string out;
  bool any = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_check = line.find(called) != std::string::npos;
    any = any || is_check;
    out += is_check ? apart(line) : line + "\n";
  }
  if (!any) return Status(TN_INVALID, "check=apart: the step checks no gradients: let its loss be scaled");
  return tenon::Graph::parse(out);
}

}  // namespace bench
