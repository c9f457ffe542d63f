// SPDX-License-Identifier: Apache-2.0
// leaks.cpp: what is ended gives back the host's memory too. A step of training is done a million times: a few bytes in each
// are gigabytes in the end.
#include "conformance/case.hpp"
#include "conformance/footprint.hpp"
#include "conformance/ops/sample.hpp"

#include <array>

namespace tenon::conform {

CONFORM_CASE(0, "memory: alloc and free leave nothing behind on the host", .alone = true) {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(leaves_nothing(t, "device.alloc and device.free",
                        "free ends what alloc began, and what it noted down", [&]() -> Status {
                          return TN_TRY(device.alloc(4096))
                          .release();
                        }));
  auto pinned = device.alloc(4096, TN_MEMORY_HOST);
  if (!pinned.ok()) return {};  // an optional kind
  TN_TRY(pinned->release());
  return leaves_nothing(t, "device.alloc of HOST memory and device.free",
                        "free ends what alloc began, and what it noted down", [&]() -> Status {
                          return TN_TRY(device.alloc(4096, TN_MEMORY_HOST))
                          .release();
                        });
}

CONFORM_CASE(0, "stream: create and destroy leave nothing behind on the host", .alone = true) {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  return leaves_nothing(t, "stream.create, a fill and stream.destroy", "destroy ends all that create began",
                        [&]() -> Status {
                          Stream stream = TN_TRY(device.stream());
                          TN_TRY(stream.fill(memory.span(), 7, 1));
                          TN_TRY(stream.finish());
                          return stream.destroy();
                        });
}

CONFORM_CASE(0, "timeline: work that is done leaves nothing behind on the host", .alone = true) {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(256));
  const Stream stream = TN_TRY(device.stream());
  std::array<std::byte, 256> sent{};
  return leaves_nothing(t, "stream.copy, fill, record, query and sync of one stream",
                        "a command that is done, and a value that is reached, need no room any more",
                        [&]() -> Status {
                          TN_TRY(stream.copy(memory.span(), host_span(sent.data(), sent.size())));
                          TN_TRY(stream.fill(memory.span(), 7, 1));
                          const uint64_t value = TN_TRY(stream.record());
                          TN_TRY(stream.completed());
                          return stream.sync(value);
                        });
}

// A compiler may take a second for each.
CONFORM_CASE(1, "kernel: compile and destroy leave nothing behind on the host", .alone = true,
             .deadlines = 4) {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 100));
  const OneNode node(sample.trial());
  return leaves_nothing(
      t, "kernel.supports, kernel.compile and kernel.destroy of one fragment",
      "destroy ends what compile began; what is remembered of a fragment is remembered once",
      [&]() -> Status {
        TN_TRY(supports(t, device, node.fragment()));
        return TN_TRY(compile(t, device, node.fragment()))
        .destroy();
      });
}

CONFORM_CASE(1, "launch: launches that are done leave nothing behind on the host", .alone = true) {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 100));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Stream stream = TN_TRY(device.stream());
  return leaves_nothing(t, "kernel.launch, stream.record and stream.sync",
                        "what a launch needs is given back when it has run", [&]() -> Status {
                          TN_TRY(bench.launch(stream));
                          return stream.finish();
                        });
}

}  // namespace tenon::conform
