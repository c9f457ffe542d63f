// SPDX-License-Identifier: Apache-2.0
// record_test.cpp: what a recording holds is enough to replay to the same bytes and codes.
#include "recordings.hpp"

#include <cstring>

using namespace tenon;
using namespace tenon::test;
namespace recording = tenon::layers::recording;

TEST_CASE(
    "record: a recording replays to the same bytes, on synchronous and asynchronous streams, with other "
    "workspaces") {
  for (const bool asynchronous : {false, true}) {
    CAPTURE(asynchronous);
    const ScratchFile file("run.rec");
    recorded(file, {.asynchronous = asynchronous});
    for (const bool other : {false, true}) {
      const ReplayReport report = replayed(file, {.asynchronous = other, .workspace_bytes = 64});
      CHECK(report.same());
      CHECK(report.downloads == 1);
      CHECK(report.skipped == 0);
      CHECK(report.recorded_on == "mini 1.0.0");
      CHECK(report.calls >= 18);
    }
  }
}

TEST_CASE("record: what pinned memory held is replayed, though no call brought it there") {
  const ScratchFile file("pinned.rec");
  {
    Layered on("record=" + file.path());
    tn_device* device = on.call->open();
    tn_stream* stream = on.call->stream(device);
    tn_memory* pinned = on.call->alloc(device, 1024, TN_MEMORY_HOST);
    tn_memory* memory = on.call->alloc(device, 1024);
    uint64_t address = 0;
    REQUIRE(on.top().device->address(pinned, &address, nullptr) == TN_OK);
    std::memset(reinterpret_cast<void*>(address), 0x5A, 1024);
    on.call->copy(stream, span_of(memory, 0, 1024), span_of(pinned, 0, 1024));
    std::memset(reinterpret_cast<void*>(address), 0, 1024);
    on.call->copy(stream, span_of(pinned, 0, 512), span_of(memory, 512, 512));
    on.call->sync(stream);
    CHECK(*reinterpret_cast<const uint8_t*>(address) == 0x5A);
    on.call->free(memory);
    on.call->free(pinned);
    on.call->destroy(stream);
    on.call->close(device);
  }
  const ReplayReport report = replayed(file);
  CHECK(report.same());
  CHECK(report.downloads == 1);
}

TEST_CASE(
    "record: device memory counts as the host's only when the program asked for its address, not when a "
    "layer did") {
  const ScratchFile file("own.rec");
  const auto pokes = [&](bool asks) {
    MiniPlugin plugin({.features = TN_FEATURE_ADDRESSABLE | TN_FEATURE_HOST_MEMORY});
    {
      auto record = layers::make_layer("record=" + file.path()), validate = layers::make_layer("validate");
      REQUIRE(record.ok());
      REQUIRE(validate.ok());
      const Caller call((*validate)->wrap((*record)->wrap(&plugin.descriptor())));
      tn_device* device = call.open();
      tn_stream* stream = call.stream(device);
      tn_memory* memory = call.alloc(device, 192);
      tn_kernel* kernel = call.add(device, 16);
      uint64_t address = 0;
      if (asks) REQUIRE(call.plugin().device->address(memory, &address, nullptr) == TN_OK);
      call.fill(stream, span_of(memory, 0, 128), 1.0f);
      call.launch(kernel, stream,
                  {span_of(memory, 0, 64), span_of(memory, 64, 64), span_of(memory, 128, 64)});
      call.sync(stream);
      call.destroy(kernel);
      call.destroy(stream);
      call.free(memory);
      call.close(device);
    }
    const auto all = recording::decode(file.read(), false);
    REQUIRE(all.ok());
    return std::ranges::count_if(
        all->steps, [](const auto& step) { return std::holds_alternative<recording::Poke>(step); });
  };
  CHECK(pokes(false) == 0);
  CHECK(pokes(true) == 2);  // the two inputs
}

TEST_CASE("record: kernels that read pinned memory see the recorded bytes") {
  const ScratchFile file("run.rec");
  recorded(file, {}, TN_MEMORY_HOST);
  CHECK(replayed(file).same());
}

TEST_CASE("record: calls that a replay cannot make are in the report with the reason") {
  const ScratchFile file("import.rec");
  {
    Layered on("record=" + file.path(), {.has_import = true});
    tn_device* device = on.call->open();
    tn_stream* stream = on.call->stream(device);
    const auto* import = static_cast<const tn_import_api*>(on.top().extension(&on.top(), TN_IMPORT_ID));
    std::vector<float> mine(16);
    tn_memory* memory = nullptr;
    REQUIRE(import->memory(device, reinterpret_cast<uint64_t>(mine.data()), 64, &memory, nullptr) == TN_OK);
    on.call->fill(stream, span_of(memory, 0, 64), 1.0f);
    on.call->free(memory);
    on.call->destroy(stream);
    on.call->close(device);
  }
  const ReplayReport report = replayed(file);
  CHECK(report.same());
  CHECK(report.skipped == 2);
  REQUIRE_FALSE(report.notes.empty());
  CHECK_HAS(report.notes[0], "fill: uses memory that was not made by alloc");
}

TEST_CASE("record: promises are replayed in the order of their signals") {
  const ScratchFile file("promise.rec");
  {
    Layered on("record=" + file.path(), {.asynchronous = true});
    tn_device* device = on.call->open();
    tn_stream* work = on.call->stream(device);
    tn_stream* promises = on.call->stream(device);
    tn_memory* memory = on.call->alloc(device, 64);
    uint64_t value = 0;
    REQUIRE(on.top().stream->promise(promises, &value, nullptr) == TN_OK);
    on.call->wait(work, promises, value);
    on.call->fill(work, span_of(memory, 0, 64), 2.0f);
    std::vector<float> down(16);
    on.call->copy(work, host_of(down), span_of(memory, 0, 64));
    REQUIRE(on.top().stream->signal(promises, value, TN_OK, nullptr) == TN_OK);
    on.call->sync(work);
    CHECK(down[0] == 2.0f);
    on.call->copy(work, host_of(down), span_of(memory, 0, 64));
    on.call->destroy(work);
    on.call->destroy(promises);
    on.call->free(memory);
    on.call->close(device);
  }
  const ReplayReport report = replayed(file, {.asynchronous = true});
  CHECK(report.same());
  CHECK(report.downloads == 1);
}

TEST_CASE(
    "record: a stream that failed with TN_TIMEOUT is recorded, a sync that only came too early is not") {
  const ScratchFile file("late.rec");
  {
    Layered on("record=" + file.path(), {.asynchronous = true});
    tn_device* device = on.call->open();
    tn_stream* promises = on.call->stream(device);
    const tn_stream_api& streams = *on.top().stream;
    uint64_t value = 0;
    REQUIRE(streams.promise(promises, &value, nullptr) == TN_OK);
    CHECK(streams.sync(promises, value, 0, nullptr) == TN_TIMEOUT);
    REQUIRE(streams.signal(promises, value, TN_TIMEOUT, nullptr) == TN_OK);
    CHECK(streams.sync(promises, value, TN_TIMEOUT_NEVER, nullptr) == TN_TIMEOUT);
    on.call->destroy(promises);
    on.call->close(device);
  }
  const auto all = recording::decode(file.read(), false);
  REQUIRE(all.ok());
  std::vector<int32_t> codes;
  for (const recording::Step& step : all->steps) {
    if (const auto* reached = std::get_if<recording::Reached>(&step)) codes.push_back(reached->code);
  }
  CHECK(codes == std::vector<int32_t>{TN_TIMEOUT});
  CHECK(replayed(file, {.asynchronous = true}).same());
}

TEST_CASE("record: fragments come back whole: strides, constants, attributes, aliases, identity") {
  const int64_t dims[] = {2, 3}, strides[] = {3, 0}, list[] = {1, -2};
  const double reals[] = {0.5, -1e300};
  const float constant[] = {1, 2, 3, 4, 5, 6};
  const tn_attribute attributes[] = {
      {.name = "axes", .kind = TN_ATTRIBUTE_I64S, .count = 2, .data = list},
      {.name = "dtype", .kind = TN_ATTRIBUTE_DTYPE, .i64 = TN_DTYPE_bf16},
      {.name = "eps", .kind = TN_ATTRIBUTE_F64, .f64 = 1e-5},
      {.name = "mode", .kind = TN_ATTRIBUTE_STRING, .count = 3, .data = "abc"},
      {.name = "weights", .kind = TN_ATTRIBUTE_F64S, .count = 2, .data = reals}};
  tn_tensor tensors[2]{};
  tensors[0] = {.dtype = TN_DTYPE_f32, .rank = 2, .dims = dims, .strides = strides, .alignment = 64};
  tensors[1] = {.dtype = TN_DTYPE_f32,
                .rank = 2,
                .dims = dims,
                .flags = TN_TENSOR_CONSTANT,
                .constant = constant,
                .constant_bytes = sizeof constant};
  const uint32_t in[] = {0, TN_ABSENT}, out[] = {1};
  tn_node node{.op = 900,
               .version = 3,
               .input_count = 2,
               .output_count = 1,
               .attribute_count = 5,
               .inputs = in,
               .outputs = out,
               .attributes = attributes,
               .name = "n"};
  const tn_alias alias{0, 0};
  tn_fragment fragment{.size = sizeof fragment,
                       .tensors = tensors,
                       .nodes = &node,
                       .inputs = in,
                       .outputs = out,
                       .aliases = &alias,
                       .tensor_count = 2,
                       .node_count = 1,
                       .input_count = 1,
                       .output_count = 1,
                       .alias_count = 1,
                       .name = "whole"};
  fragment.identity[31] = 42;
  const recording::FragmentNote note = recording::note_of(fragment);
  CHECK(recording::sound(note));
  uint32_t check = 0;
  std::string text = recording::file_head();
  text += recording::encode(recording::Compile{.device = 1, .kernel = 2, .fragment = note}, check);
  text += recording::encode_end(1, check);
  const auto decoded = recording::decode(text, false);
  REQUIRE_MESSAGE(decoded.ok(), decoded.message());
  const recording::FragmentView view(std::get<recording::Compile>(decoded->steps[0]).fragment);
  const tn_fragment& back = view.abi();
  CHECK(std::string(back.name) == "whole");
  CHECK(std::memcmp(back.identity, fragment.identity, 32) == 0);
  REQUIRE(back.tensor_count == 2);
  CHECK(back.tensors[0].strides[1] == 0);
  CHECK(back.tensors[0].alignment == 64);
  CHECK(back.tensors[1].strides == nullptr);
  CHECK(back.tensors[1].constant_bytes == sizeof constant);
  CHECK(std::memcmp(back.tensors[1].constant, constant, sizeof constant) == 0);
  const tn_node& n = back.nodes[0];
  CHECK(n.op == 900);
  CHECK(n.inputs[1] == TN_ABSENT);
  REQUIRE(n.attribute_count == 5);
  CHECK(static_cast<const int64_t*>(n.attributes[0].data)[1] == -2);
  CHECK(n.attributes[1].i64 == TN_DTYPE_bf16);
  CHECK(n.attributes[2].f64 == 1e-5);
  CHECK(std::memcmp(n.attributes[3].data, "abc", 3) == 0);
  CHECK(static_cast<const double*>(n.attributes[4].data)[1] == -1e300);
  CHECK(back.aliases[0].output == 0);
}
