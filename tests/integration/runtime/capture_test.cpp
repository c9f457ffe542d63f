// SPDX-License-Identifier: Apache-2.0
// capture_test.cpp: work captured once and replayed, through the public API; what has no captures says so.
#include "integration/device.hpp"

#include "support/temp_folder.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// Leaves the case, visibly, on a device without captures.
#define NEEDS_CAPTURES(device) \
  if (!Capture::offered(device)) TENON_SKIP("captures", device_under_test().label() + " captures nothing")

struct World {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream()), other = must(device.stream());
  Buffer a = must(device.allocate(stream, 64)), b = must(device.allocate(stream, 64));

  unsigned char first(const Buffer& buffer) {
    std::vector<unsigned char> bytes(64);
    must(stream.download(bytes, buffer));
    must(stream.sync());
    return bytes[0];
  }
};

}  // namespace

TEST_CASE("capture: a device without it says so, and what to do") {
  World w;
  if (Capture::offered(w.device)) return;
  const auto made = Capture::of(w.stream, [] { return Status(); });
  CHECK(made.code() == TN_UNSUPPORTED);
  CHECK_HAS(std::string(made.message()), "launch one by one");
}

TEST_CASE("capture: replays do again what was recorded, on what is there") {
  World w;
  NEEDS_CAPTURES(w.device);
  const std::vector<float> ones(4, 1), twos(4, 2);
  std::vector<float> found(4);
  const Buffer x = must(w.device.allocate(w.stream, 16)), y = must(w.device.allocate(w.stream, 16));
  Capture twice;
  Buffer room;
  {
    // The capture keeps the kernel.
    const Kernel kernel = must(w.device.compile(add3(4)));
    room = must(w.device.allocate(w.stream, kernel.workspace_bytes()));
    must(w.stream.upload(x, ones));
    must(w.stream.sync());
    twice = must(Capture::of(w.stream, [&]() -> Status {
      TN_TRY(kernel.launch(w.stream, std::vector<tn_span>{x, x, x, y}, room));
      return kernel.launch(w.stream, std::vector<tn_span>{y, x, x, x}, room);
    }));
  }
  for (const float expected : {5.0f, 25.0f, 125.0f}) {
    must(twice.replay(w.stream));
    must(w.stream.download(found, x));
    must(w.stream.sync());
    CHECK(found == std::vector<float>(4, expected));
  }
  must(w.stream.upload(x, twos));
  must(w.other.wait(must(w.stream.record())));
  must(twice.replay(w.other));
  must(w.other.sync());
  must(w.stream.download(found, x));
  must(w.stream.sync());
  CHECK(found == std::vector<float>(4, 10));
}

TEST_CASE("capture: another stream joins by waiting, and is waited for") {
  World w;
  NEEDS_CAPTURES(w.device);
  must(w.other.wait(must(w.stream.record())));  // the buffers are there
  const Capture capture = must(Capture::of(w.stream, [&]() -> Status {
    TN_TRY(w.stream.fill(w.a, 7));
    TN_TRY(w.other.wait(TN_TRY(w.stream.record())));
    TN_TRY(w.other.copy(w.b, w.a));
    return w.stream.wait(TN_TRY(w.other.record()));
  }));
  must(w.stream.fill(w.b, 1));
  CHECK(w.first(w.b) == 1);
  must(capture.replay(w.stream));
  CHECK(w.first(w.b) == 7);
}

TEST_CASE("capture: work that fails, or cannot be captured, leaves the stream as it was") {
  World w;
  NEEDS_CAPTURES(w.device);
  must(w.stream.fill(w.a, 3));
  const auto stopped = Capture::of(w.stream, [&]() -> Status {
    TN_TRY(w.stream.fill(w.a, 9));
    return Status(TN_NOT_FOUND, "no more");
  });
  CHECK(stopped.code() == TN_NOT_FOUND);
  CHECK(w.first(w.a) == 3);
  const std::vector<unsigned char> host(64, 8);
  const auto refused = Capture::of(w.stream, [&] { return w.stream.upload(w.a, host); });
  CHECK(refused.code() == TN_INVALID);
  CHECK_HAS(std::string(refused.message()), "host memory");
  CHECK(w.first(w.a) == 3);
  const auto twice = Capture::of(w.stream, [&]() -> Status {
    TN_TRY(Capture::of(w.stream, [] { return Status(); }));
    return {};
  });
  CHECK(twice.code() == TN_BUSY);
  must(w.stream.fill(w.a, 4));
  CHECK(w.first(w.a) == 4);
}

TEST_CASE("capture: the layers that must see every launch hide it") {
  const TempFolder folder;
  for (const std::string& layer : {std::string("validate"), "record=" + (folder / "calls")}) {
    CAPTURE(layer);
    Runtime runtime = open({layer});
    CHECK_FALSE(Capture::offered(target(runtime)));
  }
}
