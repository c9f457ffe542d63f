// SPDX-License-Identifier: Apache-2.0
// cost_table.cpp: cost tables: made monotone, looked up, and the least of several.
#include <tenon/cost_table.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

using CostPoint = CostTable::Point;

std::string told(const CostPoint& point) {
  return std::to_string(point.bytes) + " bytes, " + std::to_string(point.ns) + " ns";
}

// The nearest rising sequence, in squares: neighbours that fall become their mean.
void make_rising(std::vector<CostPoint>& points) {
  struct Level {
    double sum = 0;
    size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Level> levels;
  for (const CostPoint& point : points) {
    levels.push_back({point.ns, 1});
    while (levels.size() > 1 && levels[levels.size() - 2].mean() > levels.back().mean()) {
      const Level last = levels.back();
      levels.pop_back();
      levels.back().sum += last.sum;
      levels.back().count += last.count;
    }
  }
  size_t next = 0;
  for (const Level& level : levels) {
    for (size_t i = 0; i < level.count; ++i) points[next++].ns = level.mean();
  }
}

// Sizes between which every table is one straight line.
std::vector<uint64_t> bends(std::span<const CostTable> tables) {
  std::vector<uint64_t> out{0};
  for (const CostTable& table : tables) {
    for (const CostPoint& point : table.points()) out.push_back(point.bytes);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Where two lines meet between `from` and `to`: the sizes on both sides of it.
void add_crossing(const CostTable& a, const CostTable& b, uint64_t from, uint64_t to,
                  std::vector<uint64_t>& out) {
  const double before = a.ns(from) - b.ns(from), after = a.ns(to) - b.ns(to);
  if (!(before * after < 0)) return;
  const double way = before / (before - after) * static_cast<double>(to - from);
  const uint64_t size = from + static_cast<uint64_t>(way);
  if (size > from && size < to) out.push_back(size);
  if (size + 1 < to) out.push_back(size + 1);
}

}  // namespace

Result<CostTable> CostTable::measured(std::vector<CostPoint> points) {
  if (points.size() < 2)
    return Status(TN_INVALID, "a cost table needs two points or more, not " + std::to_string(points.size()));
  for (size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].ns) || points[i].ns < 0)
      return Status(TN_INVALID, "cost table: " + told(points[i]) + " is not a time");
    if (i > 0 && points[i].bytes <= points[i - 1].bytes)
      return Status(TN_INVALID, "cost table: " + told(points[i]) + " follows " + told(points[i - 1]) +
                                    ": list points by rising bytes, each once");
  }
  make_rising(points);
  const CostPoint &last = points.back(), &before = points[points.size() - 2];
  CostTable out;
  out.slope_ = (last.ns - before.ns) / static_cast<double>(last.bytes - before.bytes);
  out.points_ = std::move(points);
  return out;
}

CostTable CostTable::linear(double latency_ns, double ns_per_byte) {
  CostTable out;
  out.points_ = {{0, std::max(latency_ns, 0.0)}};
  out.slope_ = std::max(ns_per_byte, 0.0);
  return out;
}

CostTable CostTable::cheapest(std::span<const CostTable> tables) {
  std::vector<CostTable> given;
  std::copy_if(tables.begin(), tables.end(), std::back_inserter(given),
               [](const CostTable& t) { return bool(t); });
  if (given.size() < 2) return given.empty() ? CostTable() : given.front();
  std::vector<uint64_t> sizes = bends(given);
  // Past the last bend lines go on for ever; they meet there, too.
  const uint64_t last = sizes.back(), far = last + (uint64_t{1} << 40);
  const size_t pieces = sizes.size();
  for (size_t i = 0; i < pieces; ++i) {
    const uint64_t from = sizes[i], to = i + 1 < pieces ? sizes[i + 1] : far;
    for (size_t a = 0; a < given.size(); ++a) {
      for (size_t b = a + 1; b < given.size(); ++b) add_crossing(given[a], given[b], from, to, sizes);
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  CostTable out;
  out.slope_ = std::numeric_limits<double>::infinity();
  for (const CostTable& table : given) out.slope_ = std::min(out.slope_, table.slope_);
  for (const uint64_t size : sizes) {
    double least = std::numeric_limits<double>::infinity();
    for (const CostTable& table : given) least = std::min(least, table.ns(size));
    out.points_.push_back({size, least});
  }
  return out;
}

double CostTable::ns(uint64_t bytes) const noexcept {
  if (points_.empty()) return 0;
  const auto next =
      std::upper_bound(points_.begin(), points_.end(), bytes,
                       [](uint64_t size, const CostPoint& point) { return size < point.bytes; });
  if (next == points_.begin()) return points_.front().ns;
  const CostPoint& before = *std::prev(next);
  const auto past = static_cast<double>(bytes - before.bytes);
  if (next == points_.end()) return before.ns + past * slope_;
  return before.ns + (next->ns - before.ns) * (past / static_cast<double>(next->bytes - before.bytes));
}

}  // namespace tenon
