// SPDX-License-Identifier: Apache-2.0
// stream_test.cpp: spans, copies, fills and values on their way to an author's stream.
// Invariant: what cannot be right is refused with figures and never reaches the author.
#include "scripted.hpp"

using namespace scripted;

namespace {

int32_t copy(Bench& b, const tn_span& dst, const tn_span& src) {
  return b.plugin->stream->copy(b.stream, &dst, &src, &b.error);
}
int32_t fill(Bench& b, const tn_span& dst, uint32_t pattern_bytes) {
  return b.plugin->stream->fill(b.stream, &dst, 0, pattern_bytes, &b.error);
}
tn_span host_span(void* address, uint64_t bytes) {
  return {nullptr, reinterpret_cast<uintptr_t>(address), bytes, TN_SPACE_HOST_ADDRESS, 0};
}
uint64_t recorded(Bench& b, tn_stream* stream) {
  uint64_t value = 0;
  b.good(b.plugin->stream->record(stream, 0, &value, &b.error));
  return value;
}

}  // namespace

TEST_CASE("span: one that reaches outside its memory is refused with the figures") {
  Bench b;
  CHECK(copy(b, b.span(4090, 7), b.span(0, 7)) == TN_INVALID);
  CHECK(std::string(b.error.message) == "dst: offset 4090 + 7 bytes reaches outside a memory of 4096 bytes");
  CHECK(copy(b, b.span(0, 7), b.span(4090, 7)) == TN_INVALID);
  CHECK(b.said("src: offset 4090"));
  CHECK(copy(b, b.span(UINT64_MAX, 2), b.span(0, 2)) == TN_INVALID);
  CHECK(copy(b, b.span(2, UINT64_MAX), b.span(0, 2)) == TN_INVALID);
  CHECK(fill(b, b.span(4096, 1), 1) == TN_INVALID);
  CHECK(script.calls.empty());
  CHECK(copy(b, b.span(4089, 7), b.span(0, 7)) == TN_OK);
}

TEST_CASE("span: an empty one is legal with any handle, offset or address") {
  Bench b;
  for (const uint32_t space : {TN_SPACE_MEMORY, TN_SPACE_DEVICE_ADDRESS, TN_SPACE_HOST_ADDRESS}) {
    const tn_span nothing{nullptr, 1ull << 40, 0, space, 0};
    CHECK(copy(b, nothing, b.span(4096, 0)) == TN_OK);
    CHECK(fill(b, nothing, 8) == TN_OK);
  }
  CHECK(copy(b, b.span(9999, 0), b.span(9999, 0)) == TN_OK);
  CHECK(script.calls.empty());  // there is nothing to do
}

TEST_CASE("span: an unknown space, a reserved word, a NULL memory or address are refused") {
  Bench b;
  tn_span strange = b.span(0, 4);
  strange.space = 3;
  CHECK(copy(b, strange, b.span(8, 4)) == TN_INVALID);
  CHECK(b.said("space 3"));
  strange = b.span(0, 4);
  strange.reserved = 9;
  CHECK(copy(b, strange, b.span(8, 4)) == TN_INVALID);
  CHECK(b.said("reserved is 9"));
  CHECK(copy(b, tn_span{nullptr, 0, 4, TN_SPACE_MEMORY, 0}, b.span(8, 4)) == TN_INVALID);
  CHECK(b.said("memory is NULL for 4 bytes"));
  CHECK(copy(b, host_span(nullptr, 4), b.span(8, 4)) == TN_INVALID);
  CHECK(b.said("address is NULL"));
  CHECK(script.calls.empty());
}

TEST_CASE("span: host addresses are legal in copies and nowhere else") {
  Bench b;
  int here = 0;
  CHECK(copy(b, host_span(&here, 4), b.span(0, 4)) == TN_OK);
  CHECK(copy(b, b.span(0, 4), host_span(&here, 4)) == TN_OK);
  CHECK(fill(b, host_span(&here, 4), 4) == TN_INVALID);
  CHECK(b.said("legal in copies only"));
}

TEST_CASE("span: device addresses need the feature ADDRESSABLE") {
  const tn_span there{nullptr, 0x1000, 4, TN_SPACE_DEVICE_ADDRESS, 0};
  {
    Bench b;
    CHECK(fill(b, there, 4) == TN_OK);
  }
  tn_host host = plain_host();
  tn_error error = tenon::no_error();
  script = {};
  script.features = 0;
  const tn_plugin* plugin = tenon::author::entry<Plugin>(&host, &error);
  REQUIRE(plugin != nullptr);
  tn_device* device = nullptr;
  tn_stream* stream = nullptr;
  CHECK(plugin->device->open(plugin, 0, nullptr, &device, &error) == TN_OK);
  CHECK(plugin->stream->create(device, nullptr, &stream, &error) == TN_OK);
  CHECK(plugin->stream->fill(stream, &there, 0, 4, &error) == TN_INVALID);
  CHECK(std::string(error.message).find("ADDRESSABLE") != std::string::npos);
  CHECK(plugin->stream->destroy(stream, TN_DESTROY_COMPLETE, &error) == TN_OK);
  CHECK(plugin->device->close(device, &error) == TN_OK);
  CHECK(plugin->shutdown(plugin, &error) == TN_OK);
}

TEST_CASE("copy: both sides have equal bytes and share none") {
  Bench b;
  CHECK(copy(b, b.span(0, 8), b.span(8, 4)) == TN_INVALID);
  CHECK(b.said("dst has 8 bytes and src 4"));
  CHECK(copy(b, b.span(0, 8), b.span(7, 8)) == TN_INVALID);
  CHECK(b.said("overlap"));
  CHECK(copy(b, b.span(8, 8), b.span(8, 8)) == TN_INVALID);
  CHECK(script.calls.empty());
  CHECK(copy(b, b.span(0, 8), b.span(8, 8)) == TN_OK);
}

TEST_CASE("copy: between two memories nothing overlaps") {
  Bench b;
  tn_memory* second = nullptr;
  b.good(b.plugin->device->alloc(b.device, TN_MEMORY_DEVICE, 64, 0, &second, &b.error));
  CHECK(copy(b, b.span(0, 8), tn_span{second, 0, 8, TN_SPACE_MEMORY, 0}) == TN_OK);
  CHECK(copy(b, b.span(0, 8), tn_span{second, 57, 8, TN_SPACE_MEMORY, 0}) == TN_INVALID);
  b.good(b.plugin->device->free(second, &b.error));
}

TEST_CASE("copy: a box must lie inside both spans") {
  Bench b;
  auto shape = tenon::author::outgoing<tn_copy_shape>();
  const auto box = [&](uint32_t rank, uint64_t rows, uint64_t width, uint64_t dst_pitch, uint64_t src_pitch) {
    shape.rank = rank;
    const uint32_t row = rank >= 2 ? rank - 2 : 0;
    shape.extent[row] = rows;
    shape.dst_stride[row] = dst_pitch;
    shape.src_stride[row] = src_pitch;
    if (rank != 0 && rank <= 4)
      shape.extent[rank - 1] = width, shape.dst_stride[rank - 1] = shape.src_stride[rank - 1] = 1;
    const tn_span dst = b.span(0, 100), src = b.span(1000, 50);
    return b.plugin->stream->copy_strided(b.stream, &dst, &src, &shape, &b.error);
  };
  CHECK(box(2, 5, 10, 20, 10) == TN_OK);
  CHECK(box(2, 6, 10, 20, 8) == TN_INVALID);
  CHECK(b.said("dst: the box reaches 110 bytes into a span of 100"));
  CHECK(box(2, 5, 10, 20, 11) == TN_INVALID);
  CHECK(b.said("src: the box reaches 54 bytes into a span of 50"));
  CHECK(box(2, 3, 10, UINT64_MAX / 2, 10) == TN_INVALID);
  CHECK(box(0, 1, 1, 1, 1) == TN_INVALID);
  CHECK(box(5, 1, 1, 1, 1) == TN_INVALID);
  script.calls.clear();
  CHECK(box(2, 0, 10, 20, 10) == TN_OK);
  CHECK(script.calls.empty());  // an empty box is nothing to do
}

TEST_CASE("fill: a pattern has 1, 2, 4 or 8 bytes and divides the span") {
  Bench b;
  for (const uint32_t good : {1u, 2u, 4u, 8u}) CHECK(fill(b, b.span(0, 16), good) == TN_OK);
  for (const uint32_t bad : {0u, 3u, 5u, 16u, 0x80000000u}) CHECK(fill(b, b.span(0, 16), bad) == TN_INVALID);
  CHECK(fill(b, b.span(0, 6), 4) == TN_INVALID);
  CHECK(b.said("a pattern of 4 bytes does not fill 6 bytes"));
}

TEST_CASE("record: only known flags") {
  Bench b;
  uint64_t value = 7;
  CHECK(b.plugin->stream->record(b.stream, TN_RECORD_TIMED, &value, &b.error) == TN_OK);
  CHECK(b.plugin->stream->record(b.stream, 2, &value, &b.error) == TN_INVALID);
  CHECK(value == 0);
}

TEST_CASE("record: a stream whose values go back is told so") {
  Bench b;
  uint64_t value = 0;
  CHECK(recorded(b, b.stream) == 1);
  tenon::author::object<Stream>(b.stream).value = 41;
  CHECK(recorded(b, b.stream) == 42);
  tenon::author::object<Stream>(b.stream).value = 3;
  CHECK(b.plugin->stream->record(b.stream, 0, &value, &b.error) == TN_INTERNAL);
  CHECK(b.said("went back from 42 to 4"));
}

TEST_CASE("wait: a value neither recorded nor promised is TN_INVALID everywhere") {
  Bench b;
  uint64_t ns = 0;
  CHECK(b.plugin->stream->wait(b.stream, b.other, 1, &b.error) == TN_INVALID);
  CHECK(b.said("value 1 was neither recorded nor promised on this stream; its newest is 0"));
  CHECK(b.plugin->stream->sync(b.other, 1, 0, &b.error) == TN_INVALID);
  CHECK(b.plugin->stream->timestamp(b.other, 1, &ns, &b.error) == TN_INVALID);
  CHECK(b.plugin->stream->signal(b.other, 1, TN_OK, &b.error) == TN_INVALID);
  CHECK(script.calls.empty());
  CHECK(recorded(b, b.other) == 1);
  CHECK(b.plugin->stream->wait(b.stream, b.other, 1, &b.error) == TN_OK);
  CHECK(b.plugin->stream->sync(b.other, 1, 0, &b.error) == TN_OK);
  uint64_t promised = 0;
  b.good(b.plugin->stream->promise(b.other, &promised, &b.error));
  CHECK(b.plugin->stream->wait(b.stream, b.other, promised, &b.error) == TN_OK);
  CHECK(b.plugin->stream->wait(b.stream, b.other, promised + 1, &b.error) == TN_INVALID);
}

TEST_CASE("wait: a stream waits for itself at no cost") {
  Bench b;
  const uint64_t value = recorded(b, b.stream);
  script.calls.clear();
  CHECK(b.plugin->stream->wait(b.stream, b.stream, value, &b.error) == TN_OK);
  CHECK(b.plugin->stream->wait(b.stream, b.stream, value + 1, &b.error) == TN_INVALID);
  CHECK(script.calls.empty());
}

TEST_CASE("wait: another device needs the feature CROSS_DEVICE_WAIT, another handle of one device does not") {
  Bench b;
  for (const auto& [ordinal, expected] : {std::pair<uint32_t, int32_t>{0, TN_OK}, {1, TN_UNSUPPORTED}}) {
    tn_device* device = nullptr;
    tn_stream* stream = nullptr;
    b.good(b.plugin->device->open(b.plugin, ordinal, nullptr, &device, &b.error));
    b.good(b.plugin->stream->create(device, nullptr, &stream, &b.error));
    const uint64_t value = recorded(b, stream);
    CHECK(b.plugin->stream->wait(b.stream, stream, value, &b.error) == expected);
    b.good(b.plugin->stream->destroy(stream, TN_DESTROY_COMPLETE, &b.error));
    b.good(b.plugin->device->close(device, &b.error));
  }
  CHECK(b.said("CROSS_DEVICE_WAIT"));
}

TEST_CASE("stream: priorities and the number of streams are the device's") {
  Session s;
  script.limits = tenon::author::outgoing<tn_device_limits>();
  script.limits.alignment = 256;
  script.limits.priorities = 2;
  script.limits.max_streams = 1;
  tn_device* device = nullptr;
  tn_stream *stream = nullptr, *second = nullptr;
  REQUIRE(s.plugin->device->open(s.plugin, 0, nullptr, &device, &s.error) == TN_OK);
  tn_stream_options options{sizeof options, 2, nullptr, nullptr};
  CHECK(s.plugin->stream->create(device, &options, &stream, &s.error) == TN_INVALID);
  CHECK(std::string(s.error.message) == "priority 2: device 0 has priorities 0 to 1");
  options.priority = 1;
  CHECK(s.plugin->stream->create(device, &options, &stream, &s.error) == TN_OK);
  CHECK(s.plugin->stream->create(device, &options, &second, &s.error) == TN_NO_MEMORY);
  CHECK(std::string(s.error.message) == "device 0 has 1 of at most 1 streams: destroy one first");
  CHECK(s.plugin->stream->destroy(stream, TN_DESTROY_COMPLETE, &s.error) == TN_OK);
  CHECK(s.plugin->stream->create(device, &options, &second, &s.error) == TN_OK);
  CHECK(s.plugin->stream->destroy(second, TN_DESTROY_COMPLETE, &s.error) == TN_OK);
  CHECK(s.plugin->device->close(device, &s.error) == TN_OK);
}

TEST_CASE("stream: destroy tells the author how and passes on its last words") {
  Bench b;
  tn_stream* stream = nullptr;
  const auto made = [&] {
    b.good(b.plugin->stream->create(b.device, nullptr, &stream, &b.error));
    return stream;
  };
  CHECK(b.plugin->stream->destroy(made(), TN_DESTROY_ABANDON, &b.error) == TN_OK);
  CHECK(script.called("Stream::finish abandon"));
  CHECK(!script.called("Stream::finish"));
  CHECK(b.plugin->stream->destroy(made(), 7, &b.error) == TN_INVALID);
  CHECK(script.called("Stream::finish"));
  script.acts["Stream::finish"] = [] { return Status(TN_DEVICE_LOST, "untold"); };
  CHECK(b.plugin->stream->destroy(made(), TN_DESTROY_COMPLETE, &b.error) == TN_DEVICE_LOST);
  CHECK(b.said("untold"));
}

TEST_CASE("stream: an unknown code in a signal reads as TN_INTERNAL") {
  Bench b;
  CHECK(b.plugin->stream->signal(b.stream, 0, TN_DEVICE_LOST, &b.error) == TN_OK);
  CHECK(script.signalled == TN_DEVICE_LOST);
  CHECK(b.plugin->stream->signal(b.stream, 0, 99, &b.error) == TN_OK);
  CHECK(script.signalled == TN_INTERNAL);
}
