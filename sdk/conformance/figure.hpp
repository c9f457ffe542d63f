// SPDX-License-Identifier: Apache-2.0
// figure.hpp: one measured quantity of --perf, as it travels from a worker into the reports.
//
// Invariant: `trouble` is empty exactly when there are samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::conform {

struct Figure {
  enum class Against { nothing, link, memory, arithmetic };
  std::string group{};  // "call", "latency", "copy", "kernel"
  std::string name{};   // "record"
  std::string unit{};   // "ns", "µs", "GB/s", "GFLOP/s"
  double median = 0;
  double low = 0, high = 0;  // the 10th and the 90th percentile
  double spread = 0;         // standard deviation, in percent of the mean
  uint32_t samples = 0;
  Against against = Against::nothing;  // what its ceiling is
  double flops_per_byte = 0;           // of a kernel that computes: where it stands under the roofline
  double percent = 0;                  // of the ceiling; 0: it has none
  std::string ceiling{};               // what 100 % is, in words
  std::string trouble{};               // why there are no samples
};

struct Performance {
  bool asked = false;
  std::vector<Figure> figures{};
  std::string remark{};  // what to know before believing them, or what ended them early
};

}  // namespace tenon::conform
