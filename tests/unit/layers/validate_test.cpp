// SPDX-License-Identifier: Apache-2.0
// validate_test.cpp: wrong arguments, lifetimes and leaks, each planted and each named.
#include "layered.hpp"

#include <array>

using namespace tenon;
using namespace tenon::test;

namespace {

// The code and the text of a call that should fail.
template <class Function, class... Arguments>
std::pair<int32_t, std::string> attempt(Function function, Arguments... arguments) {
  tn_error error = no_error();
  const int32_t code = function(arguments..., &error);
  return {code, code == TN_OK ? "" : error.message};
}

}  // namespace

TEST_CASE("validate: a correct program has no findings and leaves nothing behind") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  tn_memory* memory = on.call->alloc(device, 4096);
  tn_kernel* kernel = on.call->add(device, 256);
  std::vector<float> host(256, 2.0f);
  on.call->copy(stream, span_of(memory, 0, 1024), host_of(host));
  on.call->fill(stream, span_of(memory, 1024, 1024), 3.0f);
  on.call->launch(kernel, stream,
                  {span_of(memory, 0, 1024), span_of(memory, 1024, 1024), span_of(memory, 2048, 1024)});
  on.call->copy(stream, host_of(host), span_of(memory, 2048, 1024));
  on.call->sync(stream);
  CHECK(host[255] == 5.0f);
  on.call->destroy(kernel);
  on.call->free(memory);
  on.call->destroy(stream);
  on.call->close(device);
  CHECK(attempt(on.top().shutdown, &on.top()).first == TN_OK);
  CHECK(on.found() == "");
  CHECK(on.logged.empty());
  CHECK(on.plugin.live() == 0);
}

TEST_CASE("validate: a use after free is refused and tells the object, its size, its making and its end") {
  Layered on("validate");
  tn_device* device = on.call->open();               // call 1
  tn_stream* stream = on.call->stream(device, "a");  // call 2
  tn_memory* memory = on.call->alloc(device, 4096);  // call 3
  on.call->free(memory);                             // call 4
  const int before = on.plugin.enqueued();
  const tn_span span = span_of(memory, 0, 16);
  const auto told = attempt(on.top().stream->fill, stream, &span, uint64_t{0}, 1u);
  CHECK(told.first == TN_INVALID);
  CHECK(on.plugin.enqueued() == before);
  CHECK_HAS(told.second,
            "fill #5: use after the end: dst is memory #1 (4096 bytes, made by call #3 on device 'mini:0', "
            "ended by call #4)");
  CHECK_HAS(on.found(), told.second);
  REQUIRE(on.logged.size() == 1);
  CHECK(on.logged[0] == told.second);
  on.call->destroy(stream);
  on.call->close(device);
}

TEST_CASE("validate: a double free and a use of a destroyed stream or kernel are refused") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  tn_stream* other = on.call->stream(device, "b");
  tn_memory* memory = on.call->alloc(device, 4096);
  tn_kernel* kernel = on.call->add(device, 4);
  on.call->free(memory);
  CHECK_HAS(attempt(on.top().device->free, memory).second, "ends a second time: memory is memory #1");
  on.call->destroy(kernel);
  const std::array<tn_span, 3> none{};
  CHECK_HAS(attempt(on.top().kernel->launch, kernel, stream, none.data(), 3u, none.data()).second,
            "use after the end: kernel is kernel 'add'");
  on.call->destroy(stream);
  CHECK_HAS(attempt(on.top().stream->wait, other, stream, uint64_t{0}).second,
            "use after the end: other is stream 'a'");
  CHECK_HAS(attempt(on.top().stream->destroy, stream, 0u).second, "ends a second time: stream is stream 'a'");
  on.call->destroy(other);
  on.call->close(device);
  CHECK(on.layer->report().size() == 4);
}

TEST_CASE("validate: a leak is named with size and maker when its device closes, and told once") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_memory* kept = on.call->alloc(device, 4096);
  tn_memory* freed = on.call->alloc(device, 64);
  tn_stream* stream = on.call->stream(device, "left over");
  on.call->free(freed);
  CHECK(attempt(on.top().device->close, device).first == TN_BUSY);
  const std::string found = on.found();
  CHECK_HAS(
      found,
      "leak: memory #1 (4096 bytes, made by call #2 on device 'mini:0') still lives when device 'mini:0' is "
      "closed in call #6: free it before");
  CHECK_HAS(found, "leak: stream 'left over' (made by call #4 on device 'mini:0') still lives");
  CHECK_FALSE(contains(found, "memory #2"));
  CHECK(attempt(on.top().device->close, device).first == TN_BUSY);
  CHECK(on.layer->report().size() == 2);
  on.call->free(kept);
  on.call->destroy(stream);
  on.call->close(device);
}

TEST_CASE("validate: what lives at shutdown is a leak") {
  Layered on("validate");
  tn_device* device = on.call->open(1);
  CHECK(attempt(on.top().shutdown, &on.top()).first == TN_BUSY);
  CHECK_HAS(on.found(), "leak: device 'mini:1' (made by call #1) still lives at shutdown: close it before");
  on.call->close(device);
}

TEST_CASE("validate: what lives when the layer ends is a leak") {
  std::vector<std::string> said;
  MiniPlugin plugin;
  {
    auto layer =
        layers::make_layer("validate", [&](int32_t, std::string_view text) { said.emplace_back(text); });
    REQUIRE(layer.ok());
    const Caller call((*layer)->wrap(&plugin.descriptor()));
    tn_device* device = call.open();
    tn_memory* memory = call.alloc(device, 77);
    CHECK((*layer)->finish().ok());
    REQUIRE(said.size() == 2);
    CHECK_HAS(
        said[1],
        "leak: memory #1 (77 bytes, made by call #2 on device 'mini:0') still lives when the host is done");
    call.free(memory);
    call.close(device);
  }
  CHECK(said.size() == 2);
}

TEST_CASE("validate: memory freed with work in flight is refused until the work is known to be over") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  tn_memory* memory = on.call->alloc(device, 4096);
  on.call->fill(stream, span_of(memory, 0, 4096), 1.0f);  // call 4
  const auto told = attempt(on.top().device->free, memory);
  CHECK(told.first == TN_INVALID);
  CHECK_HAS(
      told.second,
      "memory #1 (4096 bytes, made by call #3 on device 'mini:0') is freed while fill #4 on stream 'a' may "
      "still use it: sync or query");
  uint64_t reached = 0;
  on.call->record(stream);
  CHECK(attempt(on.top().stream->query, stream, &reached).first == TN_OK);
  on.call->free(memory);
  on.call->destroy(stream);
  on.call->close(device);
  CHECK(on.layer->report().size() == 1);
}

TEST_CASE("validate: destroying the stream that used a memory ends the use") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  tn_memory* memory = on.call->alloc(device, 4096);
  on.call->fill(stream, span_of(memory, 0, 4096), 1.0f);
  on.call->destroy(stream);
  on.call->free(memory);
  on.call->close(device);
  CHECK(on.found() == "");
}

TEST_CASE("validate: spans outside their memory are refused with the figures") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  tn_memory* memory = on.call->alloc(device, 100);
  const tn_span past = span_of(memory, 96, 8), wraps = span_of(memory, UINT64_MAX - 3, 8),
                null = span_of(nullptr, 0, 8);
  const tn_span empty = span_of(nullptr, 1000, 0);
  const auto fill = [&](const tn_span& span) {
    return attempt(on.top().stream->fill, stream, &span, uint64_t{0}, 1u);
  };
  CHECK_HAS(fill(past).second, "dst [96, 104) goes past the end of memory #1 (100 bytes");
  CHECK_HAS(fill(wraps).second, "dst wraps around");
  CHECK_HAS(fill(null).second, "dst is NULL: give the handle of a memory");
  CHECK(fill(empty).first == TN_OK);
  on.call->free(memory);
  on.call->destroy(stream);
  on.call->close(device);
}

TEST_CASE("validate: an alias address is known as its memory when the plugin is addressable") {
  Layered on("validate", {.features = TN_FEATURE_ADDRESSABLE});
  tn_device* device = on.call->open();
  tn_stream* a = on.call->stream(device, "a");
  tn_stream* b = on.call->stream(device, "b");
  tn_memory* memory = on.call->alloc(device, 4096);
  uint64_t address = 0;
  REQUIRE(attempt(on.top().device->address, memory, &address).first == TN_OK);
  const tn_span by_address{nullptr, address + 512, 64, TN_SPACE_DEVICE_ADDRESS, 0};
  const tn_span past{nullptr, address + 4090, 64, TN_SPACE_DEVICE_ADDRESS, 0};
  CHECK_HAS(attempt(on.top().stream->fill, a, &past, uint64_t{0}, 1u).second,
            "goes past the end of memory #1");
  on.call->fill(a, by_address, 1.0f);
  on.call->fill(b, span_of(memory, 0, 1024), 1.0f);
  CHECK_HAS(on.found(), "on stream 'a' writes memory #1 [512, 576); fill #");
  on.call->sync(a);
  on.call->sync(b);
  on.call->free(memory);
  on.call->destroy(a);
  on.call->destroy(b);
  on.call->close(device);
}

TEST_CASE("validate: wrong spaces, sizes, overlaps and values are refused with a remedy") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_device* second = on.call->open(1);
  tn_stream* stream = on.call->stream(device, "a");
  tn_stream* far = on.call->stream(second, "far");
  tn_memory* memory = on.call->alloc(device, 4096);
  const auto& s = *on.top().stream;
  const tn_span address{nullptr, 4096, 64, TN_SPACE_DEVICE_ADDRESS, 0}, odd{memory, 0, 64, 9, 0};
  const tn_span low = span_of(memory, 0, 64), wide = span_of(memory, 100, 65), near = span_of(memory, 32, 64);
  int word = 0;
  const tn_span host = host_of(&word, 4);
  CHECK_HAS(attempt(s.fill, stream, &address, uint64_t{0}, 1u).second, "lacks the feature ADDRESSABLE");
  CHECK_HAS(attempt(s.fill, stream, &odd, uint64_t{0}, 1u).second, "dst.space is 9");
  CHECK_HAS(attempt(s.fill, stream, &host, uint64_t{0}, 1u).second,
            "is a host address, which only copies take");
  CHECK_HAS(attempt(s.fill, stream, &low, uint64_t{0}, 3u).second, "pattern_bytes 3");
  CHECK_HAS(attempt(s.copy, stream, &low, &wide).second, "dst has 64 bytes and src 65");
  CHECK_HAS(attempt(s.copy, stream, &low, &near).second, "dst and src overlap in memory #1 [0, 64)");
  CHECK_HAS(attempt(s.wait, stream, stream, uint64_t{7}).second,
            "value 7 was neither recorded nor promised on stream 'a', whose newest is 0");
  CHECK_HAS(attempt(s.sync, stream, uint64_t{7}, TN_TIMEOUT_NEVER).second, "value 7 was neither recorded");
  CHECK_HAS(attempt(s.wait, stream, far, uint64_t{0}).second, "belong to different devices");
  tn_memory* none = nullptr;
  CHECK_HAS(attempt(on.top().device->alloc, device, 0u, uint64_t{8}, uint64_t{24}, &none).second,
            "alignment 24 is no power of two");
  CHECK_HAS(
      attempt(on.top().device->alloc, device, 0u, uint64_t{8}, uint64_t{0}, static_cast<tn_memory**>(nullptr))
          .second,
      "memory is NULL");
  on.call->free(memory);
  on.call->destroy(stream);
  on.call->destroy(far);
  on.call->close(device);
  on.call->close(second);
}

TEST_CASE("validate: launches are checked against the fragment") {
  Layered on("validate", {.workspace_bytes = 128});
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  tn_memory* memory = on.call->alloc(device, 4096);
  tn_kernel* kernel = on.call->add(device, 64, 2, "add");
  tn_kernel* pair = on.call->add(device, 64, 2, "pair", true);
  const tn_span scratch = span_of(memory, 2048, 128);
  const auto launch = [&](tn_kernel* which, std::vector<tn_span> spans, tn_span space) {
    return attempt(on.top().kernel->launch, which, stream, spans.data(), static_cast<uint32_t>(spans.size()),
                   &space);
  };
  const tn_span a = span_of(memory, 0, 256), b = span_of(memory, 256, 256), c = span_of(memory, 512, 256);
  CHECK_HAS(launch(kernel, {a, b}, scratch).second, "takes 3 bindings, 2 were given");
  CHECK_HAS(launch(kernel, {a, span_of(memory, 256, 255), c}, scratch).second,
            "input 1 of kernel 'add' needs 256 bytes and has 255");
  CHECK_HAS(launch(kernel, {a, span_of(memory, 258, 256), c}, scratch).second,
            "lies 2 bytes past a multiple of 4");
  CHECK_HAS(launch(kernel, {a, b, a}, scratch).second, "output 0 of kernel 'add' overlaps input 0");
  CHECK_HAS(launch(kernel, {a, b, span_of(memory, 128, 256)}, scratch).second, "overlaps input 0");
  CHECK_HAS(launch(kernel, {a, b, c}, {}).second, "needs a workspace of 128 bytes, 0 were given");
  CHECK(launch(pair, {a, b, a}, scratch).first == TN_OK);
  CHECK_HAS(launch(pair, {a, b, span_of(memory, 4, 256)}, scratch).second, "overlaps input 0");
  CHECK(launch(kernel, {a, b, c}, scratch).first == TN_OK);
  on.call->destroy(kernel);
  on.call->destroy(pair);
  on.call->destroy(stream);
  on.call->free(memory);
  on.call->close(device);
}

TEST_CASE("validate: report lets a wrong argument pass after telling it, and refuses what is undefined") {
  Layered on("validate=report");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  tn_memory* memory = on.call->alloc(device, 64);
  tn_memory* made = nullptr;
  CHECK(attempt(on.top().device->alloc, device, 9u, uint64_t{8}, uint64_t{0}, &made).first == TN_OK);
  CHECK_HAS(on.found(), "kind 9 is no kind of memory");
  on.call->free(made);
  on.call->free(memory);
  CHECK(attempt(on.top().device->free, memory).first == TN_INVALID);
  on.call->destroy(stream);
  on.call->close(device);
  CHECK_FALSE(layers::make_layer("validate=strict").ok());
}

TEST_CASE("validate: a handle of another plugin is named with its owner") {
  MiniPlugin one({.name = "one"}), two({.name = "two"});
  auto layer = layers::make_layer("validate");
  REQUIRE(layer.ok());
  const Caller first((*layer)->wrap(&one.descriptor())), second((*layer)->wrap(&two.descriptor()));
  tn_device* device = first.open();
  tn_device* other = second.open();
  tn_memory* memory = first.alloc(device, 64);
  tn_stream* stream = second.stream(other);
  const tn_span span = span_of(memory, 0, 64);
  CHECK_HAS(attempt(second.plugin().stream->fill, stream, &span, uint64_t{0}, 1u).second,
            "dst is memory #1 (64 bytes, made by call #3 on device 'one:0') of plugin 'one', given to plugin "
            "'two'");
  first.free(memory);
  second.destroy(stream);
  first.close(device);
  second.close(other);
}

TEST_CASE("validate: the same finding is told once and counted") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  for (int i = 0; i < 3; ++i)
    CHECK(
        attempt(on.top().stream->fill, stream, static_cast<const tn_span*>(nullptr), uint64_t{0}, 1u).first ==
        TN_INVALID);
  on.call->destroy(stream);
  on.call->close(device);
  CHECK(on.logged.size() == 1);
  CHECK_HAS(on.found(), "(3 times)");
}

TEST_CASE("validate: a handle that is given out again is a new object") {
  Layered on("validate");
  tn_device* device = on.call->open();
  tn_stream* stream = on.call->stream(device, "a");
  for (int i = 0; i < 100; ++i) {
    tn_memory* memory = on.call->alloc(device, 64);
    on.call->fill(stream, span_of(memory, 0, 64), 1.0f);
    on.call->sync(stream);
    on.call->free(memory);
  }
  on.call->destroy(stream);
  on.call->close(device);
  CHECK(on.found() == "");
}

TEST_CASE("validate: an extension's handles are known with their device and size") {
  Layered on("validate", {.has_import = true});
  tn_device* device = on.call->open();
  const auto* import = static_cast<const tn_import_api*>(on.top().extension(&on.top(), TN_IMPORT_ID));
  REQUIRE(import != nullptr);
  CHECK((import->native == nullptr));
  std::vector<float> mine(16);
  tn_memory* memory = nullptr;
  tn_stream* stream = nullptr;
  REQUIRE(
      attempt(import->memory, device, reinterpret_cast<uint64_t>(mine.data()), uint64_t{64}, &memory).first ==
      TN_OK);
  REQUIRE(attempt(import->stream, device, uint64_t{1}, &stream).first == TN_OK);
  on.call->fill(stream, span_of(memory, 0, 64), 4.0f);
  CHECK(mine[15] == 4.0f);
  const tn_span past = span_of(memory, 60, 8);
  CHECK_HAS(attempt(on.top().stream->fill, stream, &past, uint64_t{0}, 1u).second,
            "goes past the end of memory #1");
  CHECK(on.top().extension(&on.top(), "vendor.other/1") == nullptr);
  on.call->free(memory);
  on.call->destroy(stream);
  on.call->close(device);
}
