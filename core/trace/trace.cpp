// SPDX-License-Identifier: Apache-2.0
// trace.cpp: kinds by name, and the files of several ranks as one trace.
#include <tenon/trace.hpp>

#include "base/file.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace tenon {
namespace {

constexpr uint64_t largest_file = uint64_t{1} << 30;

// Times of different hosts are comparable by the time of day only.
void to_utc(Trace& part) {
  for (TraceEvent& event : part.events) {
    event.begin_ns += part.utc_ns;
    event.end_ns += part.utc_ns;
  }
  part.clock = "utc";
  part.utc_ns = 0;
}

void append(Trace& whole, Trace&& part) {
  const auto first = static_cast<uint32_t>(whole.lanes.size());
  for (TraceEvent& event : part.events) event.lane += first;
  std::move(part.lanes.begin(), part.lanes.end(), std::back_inserter(whole.lanes));
  std::move(part.events.begin(), part.events.end(), std::back_inserter(whole.events));
  std::move(part.notes.begin(), part.notes.end(), std::back_inserter(whole.notes));
  whole.dropped += part.dropped;
}

Result<std::vector<Trace>> parts_of(std::span<const std::string> files) {
  std::vector<Trace> parts;
  std::map<uint32_t, std::string> homes;
  for (const std::string& file : files) {
    parts.push_back(TN_TRY(Trace::parse(TN_TRY(base::read_file(file, largest_file)), file)));
    std::set<uint32_t> ranks;
    for (const TraceLane& lane : parts.back().lanes) ranks.insert(lane.rank);
    for (const uint32_t rank : ranks) {
      const auto [home, fresh] = homes.emplace(rank, file);
      if (!fresh)
        return Status(TN_INVALID, "rank " + std::to_string(rank) + " is in " + home->second + " and in " +
                                      file + ": name the files of one run, each once");
    }
  }
  return parts;
}

}  // namespace

std::string_view name(TraceKind kind) noexcept {
  constexpr std::string_view names[] = {"kernel", "copy", "collective", "wait", "host"};
  return names[static_cast<size_t>(kind)];
}

Result<Trace> Trace::read(std::span<const std::string> files) {
  std::vector<Trace> parts = TN_TRY(parts_of(files));
  std::set<std::string> clocks;
  for (const Trace& part : parts) clocks.insert(part.clock);
  Trace whole;
  if (clocks.size() > 1) {
    for (Trace& part : parts) to_utc(part);
    whole.notes.push_back(
        "ranks of " + std::to_string(clocks.size()) +
        " hosts stand by each host's time of day: between hosts, no better than that agrees");
  }
  if (!parts.empty()) {
    whole.clock = parts.front().clock;
    whole.utc_ns = parts.front().utc_ns;
  }
  for (Trace& part : parts) append(whole, std::move(part));
  return whole;
}

}  // namespace tenon
