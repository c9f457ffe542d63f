// SPDX-License-Identifier: Apache-2.0
// closing.cpp: what belongs to a device: it does not close while a communicator or a capture of it lives, and no other
// device replays its captures.
#include "conformance/captures.hpp"
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/comm/ranks.hpp"

namespace tenon::conform {

namespace {

// A close that must be refused and change nothing.
Status stays_open(Context& t, const Device& device, const char* what) {
  t.refuses(TN_BUSY, what, [&](tn_error* e) { return device.api().device.close(device.handle(), e); });
  return tour(t, device);
}

}  // namespace

CONFORM_CASE(3, "communicator: closing its device while it lives is TN_BUSY and leaves both good") {
  return as_threads(t, 1, [&](Rank& rank) -> Status {
    TN_TRY(rank.stream.destroy());
    TN_TRY(stays_open(t, rank.device, "device.close while a communicator lives"));
    return rank.comm.health();
  });
}

CONFORM_CASE(4, "capture: closing its device while it lives is TN_BUSY and leaves both good") {
  const Captures captures = TN_TRY(Captures::of(t));
  const Device& device = *TN_TRY(t.device());
  Capture capture;
  {
    const Stream stream = TN_TRY(device.stream());
    TN_TRY(captures.begin(stream));
    capture = TN_TRY(captures.end(stream));
  }
  TN_TRY(stays_open(t, device, "device.close while a capture lives"));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(capture.replay(stream));
  return stream.finish();
}

CONFORM_CASE(4, "capture: a replay on a stream of another device is TN_INVALID") {
  const Captures captures = TN_TRY(Captures::of(t));
  const Device& device = *TN_TRY(t.device());
  const uint32_t count = TN_TRY(device_count(t));
  if (count < 2) return t.skip(words("it takes two devices; the plugin counts ", count));
  const auto other = TN_TRY(Device::open(t, (t.settings().device + 1) % count));
  const Stream stream = TN_TRY(device.stream())
  , elsewhere = TN_TRY(other->stream());
  TN_TRY(captures.begin(stream));
  const Capture capture = TN_TRY(captures.end(stream));
  const Status said = capture.replay(elsewhere);
  t.check(said.code() == TN_INVALID, "expected TN_INVALID, got ", said.ok() ? "TN_OK" : said.message());
  TN_TRY(capture.replay(stream));
  return stream.finish();
}

}  // namespace tenon::conform
