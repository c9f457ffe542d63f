// SPDX-License-Identifier: Apache-2.0
// capture_test.cpp: tn.capture/1 of the plain profile.
#include "world.hpp"

using namespace sim_test;

namespace {

const tn_capture_api& api() {
  const void* const found = plugin().extension(&plugin(), TN_CAPTURE_ID);
  REQUIRE(found != nullptr);
  return *static_cast<const tn_capture_api*>(found);
}

Outcome try_begin(tn_stream* stream) {
  return outcome_of([&](tn_error* e) { return api().begin(stream, e); });
}
void begin(tn_stream* stream) { CHECK(try_begin(stream).message() == ""); }
Outcome try_end(tn_stream* stream, tn_capture*& out) {
  return outcome_of([&](tn_error* e) { return api().end(stream, &out, e); });
}
tn_capture* end_capture(tn_stream* stream) {
  tn_capture* out = nullptr;
  const Outcome said = try_end(stream, out);
  if (!said.ok()) FAIL(said.message());
  return out;
}
void replay(tn_capture* capture, tn_stream* stream) {
  must([&](tn_error* e) { return api().replay(capture, stream, e); });
}
void destroy(tn_capture* capture) {
  must([&](tn_error* e) { return api().destroy(capture, e); });
}

struct Plain {
  World world{Options{{"profile", "plain"}}};
  Device device = open_device();
  Stream stream = make_stream(device), other = make_stream(device);
  Memory a = allocate(device, 8), b = allocate(device, 8);

  unsigned char first(tn_memory* memory) { return download(stream, span(memory, 0, 8))[0]; }
};

}  // namespace

TEST_CASE("capture: work is collected, not run, and each replay runs all of it") {
  Plain p;
  fill(p.stream, span(p.a, 0, 8), 1);
  fill(p.stream, span(p.b, 0, 8), 9);
  drain(p.stream);
  begin(p.stream);
  copy(p.stream, span(p.b, 0, 8), span(p.a, 0, 8));
  tn_capture* const capture = end_capture(p.stream);
  CHECK(p.first(p.b) == 9);
  for (const int round : {2, 3}) {
    fill(p.stream, span(p.a, 0, 8), static_cast<uint64_t>(round));
    replay(capture, p.stream);
    CHECK(p.first(p.b) == round);
  }
  destroy(capture);
}

TEST_CASE("capture: a stream joins by waiting, and rejoins before the end") {
  Plain p;
  begin(p.stream);
  fill(p.stream, span(p.a, 0, 8), 7);
  wait(p.other, p.stream, record(p.stream));
  copy(p.other, span(p.b, 0, 8), span(p.a, 0, 8));
  wait(p.stream, p.other, record(p.other));
  tn_capture* const capture = end_capture(p.stream);
  fill(p.other, span(p.b, 0, 8), 1);  // the second stream is an ordinary one again
  drain(p.other);
  replay(capture, p.other);
  drain(p.other);
  destroy(capture);
  CHECK(p.first(p.b) == 7);
}

TEST_CASE("capture: a stream that has not rejoined is told, and both are usable again") {
  Plain p;
  begin(p.stream);
  fill(p.stream, span(p.a, 0, 8), 7);
  wait(p.other, p.stream, record(p.stream));
  fill(p.other, span(p.b, 0, 8), 7);
  tn_capture* capture = nullptr;
  const Outcome said = try_end(p.stream, capture);
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("has not rejoined"));
  CHECK(capture == nullptr);
  fill(p.stream, span(p.a, 0, 8), 2);
  CHECK(p.first(p.a) == 2);
  drain(p.other);
}

TEST_CASE("capture: a second begin is TN_BUSY, an end without begin TN_INVALID") {
  Plain p;
  tn_capture* capture = nullptr;
  CHECK(try_end(p.stream, capture).code == TN_INVALID);
  begin(p.stream);
  CHECK(try_begin(p.stream).code == TN_BUSY);
  destroy(end_capture(p.stream));
}

TEST_CASE("capture: what cannot be captured is refused, and end says so") {
  Plain p;
  begin(p.stream);
  const unsigned char byte = 1;
  const Outcome said = try_copy(p.stream, span(p.a, 0, 1), host_span(&byte, 1));
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("pageable host memory"));
  tn_capture* capture = nullptr;
  const Outcome ended = try_end(p.stream, capture);
  CHECK(ended.code == TN_INVALID);
  CHECK(ended.says("pageable host memory"));
}

TEST_CASE("capture: a wait for work outside that is not reached is refused") {
  Plain p;
  fill(p.other, span(p.a, 0, 8), 1);
  const uint64_t pending = record(p.other);
  begin(p.stream);
  const Outcome said =
      outcome_of([&](tn_error* e) { return plugin().stream->wait(p.stream, p.other, pending, e); });
  CHECK(said.code == TN_INVALID);
  tn_capture* capture = nullptr;
  CHECK(try_end(p.stream, capture).code == TN_INVALID);
  drain(p.other);
}

TEST_CASE("capture: values do not go back while capturing, and later ones are reached") {
  Plain p;
  fill(p.stream, span(p.a, 0, 8), 1);
  const uint64_t before = record(p.stream);
  begin(p.stream);
  fill(p.stream, span(p.a, 0, 8), 1);
  const uint64_t inside = record(p.stream);
  CHECK(inside > before);
  tn_capture* const capture = end_capture(p.stream);
  replay(capture, p.stream);
  const uint64_t after = record(p.stream);
  CHECK(after > inside);
  CHECK(try_sync(p.stream, after).ok());
  destroy(capture);
}

TEST_CASE("capture: a capture may be destroyed while its replay is in flight, and its kernel before it") {
  Plain p;
  FragmentBuilder f("double");
  const uint32_t x = f.input(TN_DTYPE_i32, {2});
  f.node(TN_OP_add, {x, x}, {f.output(TN_DTYPE_i32, {2})});
  Kernel kernel = compile(p.device, f.fragment());
  fill(p.stream, span(p.a, 0, 8), 21, 4);
  begin(p.stream);
  const tn_span bindings[] = {span(p.a, 0, 8), span(p.b, 0, 8)};
  launch(kernel, p.stream, bindings, {});
  tn_capture* const capture = end_capture(p.stream);
  kernel.reset();
  replay(capture, p.stream);
  destroy(capture);
  CHECK(p.first(p.b) == 42);
}

TEST_CASE("capture: a stream destroyed while it captures breaks the capture and nothing else") {
  Plain p;
  begin(p.stream);
  fill(p.stream, span(p.a, 0, 8), 7);
  wait(p.other, p.stream, record(p.stream));
  p.other.reset();
  tn_capture* capture = nullptr;
  const Outcome said = try_end(p.stream, capture);
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("destroyed"));
  drain(p.stream);
}

TEST_CASE("capture: it is replayed where it was captured, also when its streams are gone") {
  const World world(Options{{"profile", "plain"}, {"peer", "false"}});
  const Device first = open_device(0), second = open_device(1);
  const Memory memory = allocate(first, 8);
  Stream stream = make_stream(first);
  const Stream elsewhere = make_stream(second);
  begin(stream);
  fill(stream, span(memory, 0, 8), 7);
  tn_capture* const capture = end_capture(stream);
  stream.reset();
  const Outcome said = outcome_of([&](tn_error* e) { return api().replay(capture, elsewhere, e); });
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("another device"));
  const Stream later = make_stream(first);
  replay(capture, later);
  CHECK(download(later, span(memory, 0, 8)) == std::vector<unsigned char>(8, 7));
  destroy(capture);
}
