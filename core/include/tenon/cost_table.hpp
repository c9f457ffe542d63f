// SPDX-License-Identifier: Apache-2.0
// cost_table.hpp: how long a collective takes, by its bytes: measured points and straight lines between them.
//
// Invariant: more bytes never take less time.
#pragma once

#include <tenon/export.hpp>
#include <tenon/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// Below its first point a table is flat (a latency), past its last one it goes on with its last slope. A table made by
// default has no points and stands for "not measured".
class TN_API CostTable {
 public:
  struct Point {
    uint64_t bytes = 0;
    double ns = 0;
    friend bool operator==(const Point&, const Point&) = default;
  };

  CostTable() = default;
  // Of at least two points with rising bytes. Where a measurement says that more bytes took less time, the points that
  // disagree become their mean. TN_INVALID naming the point. [any-thread; does not block; may fail]
  static Result<CostTable> measured(std::vector<Point> points);
  // latency + bytes · ns_per_byte; what is negative counts as zero. [any-thread; does not block; cannot fail]
  static CostTable linear(double latency_ns, double ns_per_byte);
  // The least of `tables` at every size; those without points do not count. [any-thread; does not block; cannot fail]
  static CostTable cheapest(std::span<const CostTable> tables);

  explicit operator bool() const noexcept { return !points_.empty(); }
  // 0 for a table without points. [any-thread; does not block; cannot fail]
  double ns(uint64_t bytes) const noexcept;
  // Of no bytes at all.
  double latency_ns() const noexcept { return ns(0); }
  std::span<const Point> points() const noexcept { return points_; }
  // Past the last point.
  double last_slope() const noexcept { return slope_; }

 private:
  std::vector<Point> points_{};
  double slope_ = 0;
};

}  // namespace tenon
