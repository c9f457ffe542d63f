// SPDX-License-Identifier: Apache-2.0
// comm_link.cpp: the link of comm_case.hpp: from a file of measured times, or from a model; and the lines of such files.
#include "comm_case.hpp"
#include "comm_lines.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

namespace tenon::tool {
namespace {

using Points = std::vector<CostTable::Point>;

const std::map<std::string, Route> routes{{"all_reduce", Route::flat},
                                          {"all_reduce.flat", Route::flat},
                                          {"all_reduce.leaders", Route::leaders},
                                          {"all_reduce.sharded", Route::sharded}};

Result<CostTable> table_of(Points points, const std::string& what, const std::string& file) {
  auto table = CostTable::measured(std::move(points));
  if (!table.ok()) return Status(TN_INVALID, file + ": " + what + ": " + std::string(table.message()));
  return table;
}

std::string figure(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

}  // namespace

Status Line::wrong(const std::string& why) const {
  return {TN_INVALID, file + ": line " + std::to_string(number_in_file) + ": " + why};
}

Result<double> Line::number(size_t at) const {
  const std::string& word = words[at];
  double out = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), out);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size() || !std::isfinite(out) || out < 0)
    return wrong("'" + word + "' is no number from 0 on");
  return out;
}

Result<uint64_t> Line::count(size_t at) const {
  const double out = TN_TRY(number(at));
  if (out < 1 || out > 0x1p40 || out != std::floor(out))
    return wrong("'" + words[at] + "' is no count: write a whole number from 1 to 2^40");
  return static_cast<uint64_t>(out);
}

std::vector<Line> lines_of(const std::string& text, const std::string& file) {
  std::vector<Line> out;
  std::istringstream rows(text);
  std::string row;
  for (uint64_t number = 1; std::getline(rows, row); ++number) {
    std::istringstream words(row.substr(0, row.find('#')));
    Line line{.file = file, .number_in_file = number};
    for (std::string word; words >> word;) line.words.push_back(word);
    if (!line.words.empty()) out.push_back(std::move(line));
  }
  return out;
}

// 2(n - 1) messages, each of a rank's n-th part: half of them scatter sums, half gather them.
CommLink modelled(const Link& link) {
  const double hops = link.ranks - 1.0, part = 8 / link.gbit / link.ranks;  // bits over Gbit/s are ns
  const auto cost = [&](double passes) {
    return CostTable::linear(passes * hops * link.latency_us * 1e3, passes * hops * part);
  };
  CommLink out;
  out.target.name = "a ring of " + std::to_string(link.ranks);
  out.target.ranks = link.ranks;
  out.target.all_reduce.push_back({Route::flat, cost(2)});
  out.target.reduce_scatter = out.target.all_gather = cost(1);
  out.told = "a ring of " + std::to_string(link.ranks) + " ranks by arithmetic: " + figure(link.gbit) +
             " Gbit/s and " + figure(link.latency_us) +
             " µs to the neighbour (--gbit, --latency-us; measured times: --costs)";
  return out;
}

Result<CommLink> measured(const Link& link, const std::string& text, const std::string& file) {
  std::map<Route, Points> all_reduce;
  std::map<std::string, Points> halves{{"reduce_scatter", {}}, {"all_gather", {}}};
  for (const Line& line : lines_of(text, file)) {
    const auto route = routes.find(line.words[0]);
    const auto half = halves.find(line.words[0]);
    if (line.words.size() != 3 || (route == routes.end() && half == halves.end()))
      return line.wrong(
          "a cost is COLLECTIVE BYTES US, with all_reduce, all_reduce.leaders, all_reduce.sharded, "
          "reduce_scatter or "
          "all_gather");
    Points& points = route != routes.end() ? all_reduce[route->second] : half->second;
    const uint64_t bytes = TN_TRY(line.count(1));
    const double us = TN_TRY(line.number(2));
    points.push_back({bytes, us * 1e3});
  }
  CommLink out;
  out.target.name = file;
  out.target.ranks = link.ranks;
  for (auto& [route, points] : all_reduce) {
    CostTable table = TN_TRY(table_of(std::move(points), "all_reduce." + std::string(name(route)), file));
    out.target.all_reduce.push_back({route, std::move(table)});
  }
  for (auto& [what, points] : halves) {
    CostTable& table = what == "all_gather" ? out.target.all_gather : out.target.reduce_scatter;
    if (!points.empty()) table = TN_TRY(table_of(std::move(points), what, file));
  }
  if (out.target.all_reduce.empty())
    return Status(TN_INVALID, file + " has no cost of all_reduce: write lines all_reduce BYTES US");
  out.told = "of " + std::to_string(link.ranks) + " ranks, as " + file + " lists them";
  return out;
}

}  // namespace tenon::tool
