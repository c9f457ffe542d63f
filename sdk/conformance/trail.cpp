// SPDX-License-Identifier: Apache-2.0
// trail.cpp: tracks become calls, and calls become words.
#include "conformance/trail.hpp"

#include "conformance/words.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <iomanip>

namespace tenon::conform {

namespace {

// A call that lasts for less of the time than this is one of many, and no hang: a wait may be patient for a third.
constexpr double share_of_a_hang = 0.4;

double seconds_between(uint64_t before_ns, uint64_t now_ns) {
  return now_ns > before_ns ? static_cast<double>(now_ns - before_ns) * 1e-9 : 0;
}

std::string name_in(const Track& track, size_t depth) {
  const auto& what = track.what[depth];
  return std::string(what.data(), strnlen(what.data(), what.size()));
}

// "0.3 s"
std::string told(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << seconds << " s";
  return std::move(out).str();
}

// Each name once: many threads may hang in one call.
std::string names_of(const std::vector<Trail::Call>& calls) {
  std::string out;
  const std::string* before = nullptr;
  for (const Trail::Call& call : calls) {
    if (before != nullptr && *before == call.what) continue;
    out += (before != nullptr ? ", " : "") + call.what;
    before = &call.what;
  }
  return out;
}

}  // namespace

Trail trail_of(const Tracks& tracks, uint64_t now_ns) {
  Trail out;
  uint64_t newest = 0;
  for (const Track& track : tracks) {
    out.returned += track.calls;
    if (track.depth > 0) {
      const size_t inner = std::min<size_t>(track.depth, track.what.size()) - 1;
      out.inside.push_back({name_in(track, inner), seconds_between(track.began_ns[inner], now_ns)});
    } else if (track.ended_ns > newest) {
      newest = track.ended_ns;
      out.last = {name_in(track, 0), seconds_between(newest, now_ns)};
    }
  }
  std::sort(out.inside.begin(), out.inside.end(),
            [](const Trail::Call& a, const Trail::Call& b) { return a.what < b.what; });
  return out;
}

Trail read_trail(int descriptor) {
  Tracks tracks{};
  if (pread(descriptor, &tracks, sizeof tracks, 0) != static_cast<ssize_t>(sizeof tracks)) return {};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return trail_of(tracks,
                  static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec));
}

std::string calls_of(const Trail& trail) { return names_of(trail.inside); }

std::string place_of(const Trail& trail) {
  if (!trail.inside.empty()) return "in " + calls_of(trail);
  return trail.last.what.empty() ? "" : "in no call; the last to come back was " + trail.last.what;
}

std::string hang_of(const Trail& trail, double seconds) {
  std::vector<Trail::Call> long_ones;
  double longest = 0;
  for (const Trail::Call& call : trail.inside) {
    if (call.seconds < share_of_a_hang * seconds) continue;
    long_ones.push_back(call);
    longest = std::max(longest, call.seconds);
  }
  const std::string names = names_of(long_ones);
  if (!names.empty()) {
    const bool several = names.find(", ") != std::string::npos && long_ones.size() > 1;
    return words("it hangs: ", names, several ? " have" : " has", " not returned for ", told(longest));
  }
  const std::string newest = trail.inside.empty() ? trail.last.what : calls_of(trail);
  if (newest.empty()) return "it hangs before its first call";
  if (!trail.inside.empty())
    return words("no call hangs: ", trail.returned, " came back, and ", newest,
                 " was in progress: it takes too long");
  return words("no call is in progress: ", trail.returned, " came back, the last, ", newest, ", ",
               told(trail.last.seconds), " ago: what the case waits for does not happen");
}

}  // namespace tenon::conform
