// SPDX-License-Identifier: Apache-2.0
// recordings.hpp: a short program on the mini plugin, its recording, and the recording replayed or forged.
// Invariant: whatever is recorded or replayed here leaves no handle of the mini plugin behind.
#pragma once

#include "layered.hpp"
#include "scratch.hpp"

#include "layers/recording.hpp"

#include <tenon/replay.hpp>

namespace tenon::test {

// Uploads, adds, waits across streams, downloads; returns what came down.
inline std::vector<float> work(const Caller& call, uint32_t kind = TN_MEMORY_DEVICE) {
  tn_device* device = call.open(1);
  tn_stream* a = call.stream(device, "a");
  tn_stream* b = call.stream(device, "b");
  tn_memory* memory = call.alloc(device, 4096, kind);
  tn_kernel* kernel = call.add(device, 256, 3, "add3");
  std::vector<float> up(256), down(256);
  for (size_t i = 0; i < up.size(); ++i) up[i] = static_cast<float>(i);
  call.copy(a, span_of(memory, 0, 1024), host_of(up));
  call.fill(a, span_of(memory, 1024, 1024), 0.5f);
  call.wait(b, a, call.record(a));
  call.launch(kernel, b,
              {span_of(memory, 0, 1024), span_of(memory, 1024, 1024), span_of(memory, 0, 1024),
               span_of(memory, 2048, 1024)});
  call.copy(b, host_of(down), span_of(memory, 2048, 1024));
  call.sync(b);
  call.destroy(kernel);
  call.destroy(a);
  call.destroy(b);
  call.free(memory);
  call.close(device);
  return down;
}

inline std::string recorded(const ScratchFile& file, MiniOptions options = {},
                            uint32_t kind = TN_MEMORY_DEVICE) {
  Layered on("record=" + file.path(), std::move(options));
  const auto down = work(*on.call, kind);
  CHECK(down[255] == 510.5f);
  CHECK(on.plugin.live() == 0);
  CHECK_HAS(on.found(), "recorded ");
  on.layer.reset();
  return file.read();
}

inline ReplayReport replayed(const ScratchFile& file, MiniOptions options = {}) {
  const MiniPlugin plugin(std::move(options));
  auto report = replay(file.path(), plugin.descriptor());
  REQUIRE_MESSAGE(report.ok(), report.message());
  CHECK(plugin.live() == 0);
  return *report;
}

// The recording with its steps changed and all checks made right again.
template <class Change>
std::string forged(const std::string& text, const Change& change) {
  auto all = layers::recording::decode(text, false);
  REQUIRE(all.ok());
  uint32_t check = 0;
  std::string out = layers::recording::file_head();
  for (layers::recording::Step& step : all->steps) {
    std::visit(change, step);
    out += layers::recording::encode(step, check);
  }
  return out + layers::recording::encode_end(all->steps.size(), check);
}

}  // namespace tenon::test
