// SPDX-License-Identifier: Apache-2.0
// interposer_test.cpp: a layer that does nothing changes nothing; every function of the ABI has its place; specs.
#include "layered.hpp"

#include "layers/interposer.hpp"

#include <cstring>

using namespace tenon;
using namespace tenon::test;

namespace {

class Nothing final : public layers::InterposingLayer {
  std::unique_ptr<layers::Interposer> interpose(const tn_plugin& below) override {
    return std::make_unique<layers::Interposer>(below);
  }
};

class Throwing final : public layers::Interposer {
 public:
  using Interposer::Interposer;
  int32_t around(layers::Function, const void*, tn_error*, const layers::Call&) override {
    throw std::runtime_error("thrown on purpose");
  }
};

class ThrowingLayer final : public layers::InterposingLayer {
  std::unique_ptr<layers::Interposer> interpose(const tn_plugin& below) override {
    return std::make_unique<Throwing>(below);
  }
};

}  // namespace

TEST_CASE("interposer: every slot of the four tables is a function of functions.def") {
  size_t slots = 0;
  for (const size_t bytes :
       {sizeof(tn_device_api), sizeof(tn_stream_api), sizeof(tn_kernel_api), sizeof(tn_comm_api),
        sizeof(tn_capture_api), sizeof(tn_import_api), sizeof(tn_ipc_api)}) {
    slots += (bytes - sizeof(tn_header)) / sizeof(void*);
  }
  CHECK(layers::function_count == slots + 2);  // quiesce, shutdown
}

TEST_CASE("interposer: full tables and null slots pass through as they are") {
  const MiniPlugin plugin;
  tn_plugin whole = plugin.descriptor();
  Nothing layer;
  const tn_plugin& top = *layer.wrap(&whole);
  CHECK((top.device->peer == nullptr));
  CHECK((top.kernel->save == nullptr));
  CHECK((top.stream->promise == nullptr));
  CHECK(top.comm == nullptr);
  CHECK((top.stream->copy != nullptr));
  CHECK((top.stream->copy != whole.stream->copy));
  CHECK(top.features == whole.features);
  CHECK(std::string(top.name) == "mini");
  CHECK(top.extension(&top, "no.such/1") == nullptr);
  CHECK(top.device->header.size == sizeof(tn_device_api));
}

TEST_CASE("interposer: four layers in a row change no result") {
  MiniPlugin plugin;
  Nothing layers[4];
  const tn_plugin* top = &plugin.descriptor();
  for (Nothing& layer : layers) top = layer.wrap(top);
  const Caller call(top);
  tn_device* device = call.open();
  tn_stream* stream = call.stream(device);
  tn_memory* memory = call.alloc(device, 192);
  tn_kernel* kernel = call.add(device, 16);
  call.fill(stream, span_of(memory, 0, 64), 1.0f);
  call.fill(stream, span_of(memory, 64, 64), 2.0f);
  call.launch(kernel, stream, {span_of(memory, 0, 64), span_of(memory, 64, 64), span_of(memory, 128, 64)});
  std::vector<float> out(16);
  call.copy(stream, host_of(out), span_of(memory, 128, 64));
  call.sync(stream);
  CHECK(out == std::vector<float>(16, 3.0f));
  call.destroy(kernel);
  call.free(memory);
  call.destroy(stream);
  call.close(device);
  CHECK(plugin.live() == 0);
}

TEST_CASE("interposer: what a layer throws ends as TN_INTERNAL with the text") {
  const MiniPlugin plugin;
  ThrowingLayer layer;
  const tn_plugin& top = *layer.wrap(&plugin.descriptor());
  uint32_t count = 0;
  tn_error error = no_error();
  CHECK(top.device->count(&top, &count, &error) == TN_INTERNAL);
  CHECK(std::string(error.message) == "thrown on purpose");
  CHECK(top.device->count(&top, &count, nullptr) == TN_INTERNAL);
}

TEST_CASE(
    "interposer: when all slots are taken a plugin goes unlayered and the layer says so, ended layers free "
    "theirs") {
  const MiniPlugin plugin;
  for (int round = 0; round < 3; ++round) {
    Nothing layer;
    for (size_t i = 0; i < layers::max_interposers; ++i)
      CHECK(layer.wrap(&plugin.descriptor()) != &plugin.descriptor());
    CHECK(layer.report().empty());
    CHECK(layer.wrap(&plugin.descriptor()) == &plugin.descriptor());
    REQUIRE(layer.report().size() == 1);
    CHECK_HAS(layer.report()[0], "plugin 'mini' runs without this layer");
  }
}

TEST_CASE("layers: an unknown name is refused with the nearest, and specs are cut at commas") {
  const auto wrong = layers::make_layer("validat");
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.code() == TN_NOT_FOUND);
  CHECK_HAS(wrong.error().message, "no layer is called 'validat' (did you mean 'validate'?)");
  CHECK(layers::make_layer("").code() == TN_NOT_FOUND);
  CHECK(layers::make_layer("trace").code() == TN_INVALID);
  CHECK(layers::make_layer("trace=").code() == TN_INVALID);
  CHECK(layers::make_layer("trace=/dev/null/t.json").code() == TN_INVALID);
  CHECK(layers::make_layer("record=").code() == TN_INVALID);
  CHECK(layers::make_layer("record=/dev/null/r").code() == TN_INVALID);
  CHECK(layers::split_specs("validate,fault=alloc:3:busy;fill:1:busy,") ==
        std::vector<std::string>{"validate", "fault=alloc:3:busy;fill:1:busy"});
  CHECK(layers::split_specs("").empty());
}
