// SPDX-License-Identifier: Apache-2.0
// Which call a hang or a crash is laid on.
#include "conformance/trail.hpp"

#include <doctest/doctest.h>

#include <cstdio>

using namespace tenon::conform;

namespace {

constexpr uint64_t second = 1'000'000'000, now = 100 * second;

void name(Track& track, size_t depth, const char* what) {
  std::snprintf(track.what[depth].data(), track.what[depth].size(), "%s", what);
}

// In `what` for so many seconds.
Track inside(const char* what, uint64_t seconds) {
  Track out{.taken = 1, .depth = 1, .began_ns = {now - seconds * second, now - seconds * second}, .calls = 3};
  name(out, 0, what);
  return out;
}

// In no call; `what` came back so many seconds ago.
Track outside(const char* what, uint64_t seconds) {
  Track out{.taken = 1, .ended_ns = now - seconds * second, .calls = 40};
  name(out, 0, what);
  return out;
}

Trail trail(std::initializer_list<Track> some) {
  Tracks tracks{};
  std::copy(some.begin(), some.end(), tracks.begin());
  return trail_of(tracks, now);
}

}  // namespace

TEST_CASE("trail: a hang is laid on the call that does not return, whichever thread is in it") {
  CHECK(hang_of(trail({inside("stream.copy", 4)}), 4) == "it hangs: stream.copy has not returned for 4.0 s");
  CHECK(hang_of(trail({outside("device.open", 4), inside("stream.create", 3)}), 4) ==
        "it hangs: stream.create has not returned for 3.0 s");
  CHECK(hang_of(trail({inside("stream.sync", 4), inside("comm.submit", 3), inside("comm.submit", 4)}), 4) ==
        "it hangs: comm.submit, stream.sync have not returned for 4.0 s");
}

TEST_CASE("trail: a call that just began hangs no case") {
  CHECK(hang_of(trail({outside("stream.copy", 4), inside("stream.query", 0)}), 4) ==
        "no call hangs: 43 came back, and stream.query was in progress: it takes too long");
}

TEST_CASE("trail: where every call came back, the case waits for what does not happen") {
  CHECK(hang_of(trail({outside("stream.host_call", 4)}), 4) ==
        "no call is in progress: 40 came back, the last, stream.host_call, 4.0 s ago: what the case waits "
        "for does not "
        "happen");
  CHECK(hang_of(trail({}), 4) == "it hangs before its first call");
}

TEST_CASE("trail: a crash is laid on the calls in progress, and on none that came back") {
  CHECK(place_of(trail({outside("device.open", 1), inside("stream.fill", 0)})) == "in stream.fill");
  CHECK(place_of(trail({outside("device.open", 2), outside("stream.fill", 1)})) ==
        "in no call; the last to come back was stream.fill");
  CHECK(place_of(trail({})).empty());
}

TEST_CASE("trail: of calls inside each other the innermost is told") {
  Track track = inside("stream.host_call", 1);
  track.depth = 2;
  name(track, 1, "stream.copy");
  CHECK(calls_of(trail({track})) == "stream.copy");
}
