// SPDX-License-Identifier: Apache-2.0
// threads_test.cpp: layers under many threads: nothing is lost, nobody is accused falsely, and two threads on one stream are.
#include "layered.hpp"
#include "scratch.hpp"

#include "support/full.hpp"

#include <tenon/replay.hpp>

#include <thread>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int workers = 8;

// Each worker hands a block to the next through waits: one ring of streams, all on one memory.
void ring(const Caller& call, int rounds) {
  tn_device* device = call.open();
  tn_memory* memory = call.alloc(device, workers * 256);
  std::vector<std::thread> threads;
  for (int id = 0; id < workers; ++id) {
    threads.emplace_back([&call, device, memory, id, rounds] {
      tn_stream* mine = call.stream(device);
      tn_stream* helper = call.stream(device);
      const tn_span part = span_of(memory, static_cast<uint64_t>(id) * 256, 256);
      std::vector<float> down(64);
      for (int round = 0; round < rounds; ++round) {
        call.fill(mine, part, static_cast<float>(round));
        call.wait(helper, mine, call.record(mine));
        call.copy(helper, host_of(down), part);
        call.sync(helper);
        CHECK(down[63] == static_cast<float>(round));
        call.free(call.alloc(device, 64));
      }
      call.destroy(mine);
      call.destroy(helper);
    });
  }
  for (std::thread& thread : threads) thread.join();
  call.free(memory);
  call.close(device);
}

}  // namespace

TEST_CASE("validate: eight threads with two streams each are served and never accused") {
  Layered on("validate", {.asynchronous = true});
  ring(*on.call, full_or("rounds", 100, 5000));
  CHECK(on.found() == "");
  CHECK(on.plugin.live() == 0);
}

TEST_CASE("record: what eight threads do is one sequence that a single thread can replay") {
  const ScratchFile file("threads.rec");
  const int rounds = full_or("rounds", 50, 500);
  {
    Layered on("record=" + file.path(), {.asynchronous = true});
    ring(*on.call, rounds);
  }
  const MiniPlugin plugin;
  const auto report = replay(file.path(), plugin.descriptor());
  REQUIRE_MESSAGE(report.ok(), report.message());
  CHECK(report->same());
  CHECK(report->downloads == static_cast<uint64_t>(workers * rounds));
  CHECK(plugin.live() == 0);
}

TEST_CASE("layers: all four in a row under eight threads") {
  const ScratchFile trace("all.json"), record("all.rec");
  MiniPlugin plugin({.asynchronous = true});
  std::vector<std::unique_ptr<layers::Layer>> layers;
  const tn_plugin* top = &plugin.descriptor();
  for (const std::string& spec : {std::string("fault=launch:1:busy"), "record=" + record.path(),
                                  "trace=" + trace.path() + ";device", std::string("validate")}) {
    auto made = layers::make_layer(spec);
    REQUIRE(made.ok());
    top = (*made)->wrap(top);
    layers.push_back(std::move(*made));
  }
  ring(Caller(top), full_or("rounds", 30, 500));
  CHECK(layers.back()->report().empty());
  CHECK_HAS(layers.front()->report().at(0), "never fired in 0 calls of launch");
  while (!layers.empty()) layers.pop_back();
  CHECK(replay(record.path(), plugin.descriptor()).ok());
  CHECK(plugin.live() == 0);
}

TEST_CASE("validate: two threads in calls on one stream are named") {
  Layered on("validate");
  tn_device* device = on.call->open();
  struct Both {
    const Layered* on;
    tn_stream* stream;
  } both{&on, on.call->stream(device, "a")};
  const auto inside = [](void* argument) {
    const auto& b = *static_cast<Both*>(argument);
    std::thread([&b] {
      uint64_t value = 0;
      CHECK(b.on->top().stream->record(b.stream, 0, &value, nullptr) == TN_OK);
    }).join();
  };
  CHECK(on.top().stream->host_call(both.stream, inside, &both, nullptr) == TN_OK);
  CHECK_HAS(on.found(), "record #4: stream 'a' is in another thread's call at the same time");
  on.call->destroy(both.stream);
  on.call->close(device);
}
