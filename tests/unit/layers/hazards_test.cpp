// SPDX-License-Identifier: Apache-2.0
// hazards_test.cpp: planted missing waits are found and named; programs whose waits suffice are never accused.
#include "layered.hpp"

#include "layers/footprint.hpp"
#include "layers/hazards.hpp"
#include "layers/pool_notes.hpp"

#include <array>

using namespace tenon;
using namespace tenon::test;

namespace {

// Two streams and a memory behind the validate layer.
struct Scene {
  explicit Scene(MiniOptions options = {}) : on("validate", std::move(options)) {
    device = on.call->open();
    a = on.call->stream(device, "a");
    b = on.call->stream(device, "b");
    memory = on.call->alloc(device, 4096);
  }
  ~Scene() {
    on.call->destroy(a);
    on.call->destroy(b);
    on.call->free(memory);
    on.call->close(device);
  }
  Layered on;
  tn_device* device = nullptr;
  tn_stream *a = nullptr, *b = nullptr;
  tn_memory* memory = nullptr;
};

}  // namespace

TEST_CASE(
    "hazards: a missing wait between a copy and a launch is named with both operations and the remedy") {
  Scene s;
  tn_kernel* kernel = s.on.call->add(s.device, 64, 3, "add3");
  std::vector<float> host(1024, 1.0f);
  s.on.call->copy(s.a, span_of(s.memory, 0, 4096), host_of(host));  // call 6
  s.on.call->launch(kernel, s.b,
                    {span_of(s.memory, 0, 256), span_of(s.memory, 256, 256), span_of(s.memory, 512, 256),
                     span_of(s.memory, 1024, 256)});
  const std::string found = s.on.found();
  CHECK_HAS(
      found,
      "hazard: copy #6 on stream 'a' writes memory #1 [0, 4096); launch 'add3' #7 on stream 'b' reads memory "
      "#1 [0, 256) and never waited for it: make stream 'b' wait for a value that stream 'a' records after "
      "#6");
  CHECK(s.on.layer->report().size() == 1);
  s.on.call->destroy(kernel);
}

TEST_CASE("hazards: read after write, write after read and write after write are each found") {
  for (const int kind : {0, 1, 2}) {
    CAPTURE(kind);
    Scene s;
    std::vector<float> host(16);
    const tn_span span = span_of(s.memory, 64, 64);
    const auto read = [&](tn_stream* stream) { s.on.call->copy(stream, host_of(host), span); };
    const auto write = [&](tn_stream* stream) { s.on.call->fill(stream, span, 1.0f); };
    kind == 1 ? read(s.a) : write(s.a);
    kind == 0 ? read(s.b) : write(s.b);
    CHECK_HAS(s.on.found(),
              kind == 1 ? "copy #5 on stream 'a' reads memory #1 [64, 128); fill #6 on stream 'b' writes"
                        : "fill #5 on stream 'a' writes memory #1 [64, 128);");
    CHECK_HAS(s.on.found(),
              kind == 0 ? "copy #6 on stream 'b' reads memory #1 [64, 128)" : "fill #6 on stream 'b' writes");
  }
}

TEST_CASE("hazards: two reads, and uses of different bytes, need no order") {
  Scene s;
  std::vector<float> one(16), two(16);
  s.on.call->copy(s.a, host_of(one), span_of(s.memory, 0, 64));
  s.on.call->copy(s.b, host_of(two), span_of(s.memory, 0, 64));
  s.on.call->fill(s.a, span_of(s.memory, 64, 64), 1.0f);
  s.on.call->fill(s.b, span_of(s.memory, 128, 64), 1.0f);
  CHECK(s.on.found() == "");
}

TEST_CASE("hazards: a wait orders, directly, through a third stream, and through the host") {
  Scene s;
  const tn_span span = span_of(s.memory, 0, 64);
  tn_stream* c = s.on.call->stream(s.device, "c");
  s.on.call->fill(s.a, span, 1.0f);
  s.on.call->wait(s.b, s.a, s.on.call->record(s.a));
  s.on.call->fill(s.b, span, 2.0f);
  s.on.call->wait(c, s.b, s.on.call->record(s.b));
  s.on.call->wait(s.a, c, s.on.call->record(c));
  s.on.call->fill(s.a, span, 3.0f);
  s.on.call->sync(s.a);
  s.on.call->fill(c, span, 4.0f);
  s.on.call->destroy(c);
  s.on.call->fill(s.b, span, 5.0f);
  CHECK(s.on.found() == "");
}

TEST_CASE("hazards: a wait for a value recorded too early does not order") {
  Scene s;
  const uint64_t early = s.on.call->record(s.a);
  s.on.call->fill(s.a, span_of(s.memory, 0, 64), 1.0f);
  s.on.call->wait(s.b, s.a, early);
  s.on.call->fill(s.b, span_of(s.memory, 0, 64), 2.0f);
  CHECK_HAS(s.on.found(), "hazard: fill #6 on stream 'a'");
}

TEST_CASE("hazards: a host destination is memory, too, until the host knows it is filled") {
  Scene s;
  std::vector<float> host(16);
  s.on.call->copy(s.a, host_of(host), span_of(s.memory, 0, 64));
  s.on.call->copy(s.b, host_of(host), span_of(s.memory, 64, 64));
  CHECK_HAS(s.on.found(), "on stream 'a' writes host memory [0x");
  CHECK(s.on.layer->report().size() == 1);
  s.on.call->sync(s.a);
  s.on.call->sync(s.b);
  s.on.call->copy(s.a, host_of(host), span_of(s.memory, 0, 64));
  CHECK(s.on.layer->report().size() == 1);
}

TEST_CASE("hazards: a pageable source is free again when the copy returns") {
  Scene s;
  std::vector<float> host(16);
  s.on.call->copy(s.a, span_of(s.memory, 0, 64), host_of(host));
  s.on.call->copy(s.b, host_of(host), span_of(s.memory, 64, 64));
  CHECK(s.on.found() == "");
}

TEST_CASE("hazards: two launches that share a workspace need an order") {
  Scene s({.workspace_bytes = 64});
  tn_kernel* kernel = s.on.call->add(s.device, 4);
  const tn_span scratch = span_of(s.memory, 2048, 64);
  s.on.call->launch(
      kernel, s.a, {span_of(s.memory, 0, 16), span_of(s.memory, 16, 16), span_of(s.memory, 32, 16)}, scratch);
  s.on.call->launch(
      kernel, s.b, {span_of(s.memory, 0, 16), span_of(s.memory, 16, 16), span_of(s.memory, 64, 16)}, scratch);
  CHECK_HAS(s.on.found(), "writes memory #1 [2048, 2112)");
  CHECK(s.on.layer->report().size() == 1);
  s.on.call->destroy(kernel);
}

TEST_CASE("hazards: strided boxes collide only where they share a byte") {
  Scene s;
  std::vector<float> host(64);
  const tn_span source = host_of(host);
  tn_copy_shape shape{sizeof(tn_copy_shape), 2, {8, 16}, {128, 1}, {16, 1}};
  const auto box = [&](tn_stream* stream, uint64_t offset) {
    const tn_span dst = span_of(s.memory, offset, 1024);
    tn_span src = source;
    src.bytes = 128;
    tn_error error = no_error();
    REQUIRE(s.on.top().stream->copy_strided(stream, &dst, &src, &shape, &error) == TN_OK);
  };
  box(s.a, 0);
  box(s.b, 16);
  CHECK(s.on.found() == "");
  box(s.b, 8);
  CHECK_HAS(s.on.found(), "copy_strided");
}

TEST_CASE("hazards: a host call that ran proves all before it over") {
  Scene s;
  int ran = 0;
  s.on.call->fill(s.a, span_of(s.memory, 0, 64), 1.0f);
  tn_error error = no_error();
  REQUIRE(s.on.top().stream->host_call(
              s.a, [](void* count) { ++*static_cast<int*>(count); }, &ran, &error) == TN_OK);
  CHECK(ran == 1);
  s.on.call->fill(s.b, span_of(s.memory, 0, 64), 2.0f);
  CHECK(s.on.found() == "");
}

TEST_CASE("hazards: work behind a promise that is not kept yet is not judged, and is again afterwards") {
  layers::Hazards h;
  const auto a = h.add_stream(), b = h.add_stream(), p = h.add_stream();
  const auto op = std::make_shared<const layers::Operation>(layers::Operation{1, "op", "s"});
  const layers::Access write{1, {0, 8}, true};
  h.promised(p, 1);
  h.waited(b, p, 1);
  CHECK(h.run(a, op, std::array{write}).empty());
  CHECK(h.run(b, op, std::array{write}).empty());  // may be ordered by what keeps the promise
  CHECK(h.run(a, op, std::array{write}).empty());  // against one that was not judged
  h.signalled(p, 1);
  CHECK(h.run(b, op, std::array{write}).size() == 1);
}

TEST_CASE("hazards: a slot that serves a new stream does not make old work younger") {
  layers::Hazards h;
  const auto op = std::make_shared<const layers::Operation>(layers::Operation{1, "op", "s"});
  const layers::Access write{1, {0, 8}, true};
  const auto a = h.add_stream(), b = h.add_stream();
  CHECK(h.run(a, op, std::array{write}).empty());
  h.remove_stream(a);
  const auto again = h.add_stream();
  CHECK(again == a);
  CHECK(h.run(b, op, std::array{write}).empty());
  CHECK(h.run(again, op, std::array{write}).size() == 1);
  CHECK(h.in_flight(1) != nullptr);
  h.recorded(again, 1);
  h.reached(again, 1);
  CHECK(h.in_flight(1) == nullptr);
  h.forget(1);
}

TEST_CASE("hazards: memory of the detector stays bounded over many ranges that are over") {
  layers::Hazards h;
  const auto a = h.add_stream();
  const auto op = std::make_shared<const layers::Operation>(layers::Operation{1, "op", "s"});
  for (uint64_t i = 0; i < 20000; ++i) {
    CHECK(h.run(a, op, std::array{layers::Access{0, {i * 64, i * 64 + 32}, true}}).empty());
    h.recorded(a, i + 1);
    h.reached(a, i + 1);
  }
  CHECK(h.cells(0) <= 128);
}

TEST_CASE("footprint: dims that join are one row, others are counted out, and too many are no footprint") {
  const auto box = [](std::vector<uint64_t> extents, std::vector<uint64_t> strides, uint64_t cell) {
    return layers::footprint(extents, strides, cell);
  };
  const auto dense = box({4, 8}, {32, 4}, 4);
  REQUIRE(dense.rows.size() == 1);
  CHECK(dense.rows[0].end == 128);
  const auto rows = box({3, 8}, {64, 4}, 4);
  REQUIRE(rows.rows.size() == 3);
  CHECK(rows.rows[2].begin == 128);
  CHECK(rows.extent == 160);
  CHECK(box({3, 0}, {64, 4}, 4).rows.empty());
  CHECK(box({1000, 8}, {0, 4}, 4).rows.size() == 1);  // broadcast
  const auto many = box({5000, 1}, {8, 4}, 4);
  CHECK_FALSE(many.exact);
  CHECK(many.rows.empty());
  CHECK(many.extent == 4999 * 8 + 4);
  CHECK(layers::overlap(rows, 0, rows, 16));
  CHECK_FALSE(layers::overlap(rows, 0, rows, 32));
}

TEST_CASE("hazards: parts that went back to the pool are gone until they are handed out again") {
  Scene s;
  const auto* notes =
      static_cast<const layers::PoolNotes*>(s.on.top().extension(&s.on.top(), layers::pool_notes_id));
  REQUIRE(notes != nullptr);
  notes->acquired(notes->context, s.memory, 0, 1024);
  notes->acquired(notes->context, s.memory, 1024, 1024);
  notes->released(notes->context, s.memory, 0, 1024);
  const tn_span part = span_of(s.memory, 1000, 16), kept = span_of(s.memory, 1024, 64);
  tn_error error = no_error();
  CHECK(s.on.top().stream->fill(s.a, &kept, 0, 1, &error) == TN_OK);
  CHECK(s.on.top().stream->fill(s.a, &part, 0, 1, &error) == TN_INVALID);
  CHECK_HAS(std::string(error.message),
            "use after free: dst [1000, 1016) of memory #1 names bytes of [0, 1024), which went "
            "back to the pool after call #4");
  notes->acquired(notes->context, s.memory, 512, 512);
  CHECK(s.on.top().stream->fill(s.a, &part, 0, 1, &error) == TN_OK);
  const tn_span first = span_of(s.memory, 0, 512);
  CHECK(s.on.top().stream->fill(s.a, &first, 0, 1, &error) == TN_INVALID);
}
