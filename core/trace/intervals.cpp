// SPDX-License-Identifier: Apache-2.0
// intervals.cpp: see intervals.hpp. Each is one sweep in order of time.
#include "trace/intervals.hpp"

#include <algorithm>

namespace tenon::trace {

std::vector<TraceInterval> united(std::vector<TraceInterval> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const TraceInterval& a, const TraceInterval& b) { return a.begin_ns < b.begin_ns; });
  std::vector<TraceInterval> out;
  for (const TraceInterval& piece : pieces) {
    if (piece.end_ns <= piece.begin_ns) continue;
    if (!out.empty() && piece.begin_ns <= out.back().end_ns)
      out.back().end_ns = std::max(out.back().end_ns, piece.end_ns);
    else
      out.push_back(piece);
  }
  return out;
}

std::vector<TraceInterval> without(const std::vector<TraceInterval>& from,
                                   const std::vector<TraceInterval>& what) {
  std::vector<TraceInterval> out;
  size_t first = 0;  // of `what` that may still meet what comes
  for (TraceInterval left : from) {
    while (first < what.size() && what[first].end_ns <= left.begin_ns) ++first;
    for (size_t i = first; i < what.size() && what[i].begin_ns < left.end_ns; ++i) {
      if (what[i].begin_ns > left.begin_ns) out.push_back({left.begin_ns, what[i].begin_ns});
      left.begin_ns = std::min(what[i].end_ns, left.end_ns);
    }
    if (left.begin_ns < left.end_ns) out.push_back(left);
  }
  return out;
}

double length_ns(const std::vector<TraceInterval>& pieces) noexcept {
  double sum = 0;
  for (const TraceInterval& piece : pieces) sum += static_cast<double>(piece.end_ns - piece.begin_ns);
  return sum;
}

}  // namespace tenon::trace
