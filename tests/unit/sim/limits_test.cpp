// SPDX-License-Identifier: Apache-2.0
// limits_test.cpp: each limit holds, and what is beyond it is refused in words.
#include "world.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

using namespace sim_test;

namespace {

// y = relu(a + b) over four elements; the sum alone when `single`.
struct Group : FragmentBuilder {
  explicit Group(bool single, uint32_t dtype = TN_DTYPE_f32) {
    const uint32_t a = input(dtype, {4}), b = input(dtype, {4});
    const uint32_t sum = single ? output(dtype, {4}) : tensor(dtype, {4});
    node(TN_OP_add, {a, b}, {sum});
    if (!single) node(TN_OP_relu, {sum}, {output(dtype, {4})});
  }
};

const std::vector<std::vector<float>> inputs{{-3, -1, 1, 3}, {1, 1, 1, 1}};
const std::vector<float> answer{0, 0, 2, 4};

}  // namespace

TEST_CASE("limits: one stream more than there are is refused with the figure") {
  const World world(Options{{"max_streams", "2"}});
  const Device device = open_device();
  Stream first = make_stream(device), third;
  const Stream second = make_stream(device);
  const Outcome said = try_stream(device, third);
  CHECK(said.code == TN_NO_MEMORY);
  CHECK(said.says("2 of at most 2"));
  first.reset();
  CHECK(try_stream(device, third).ok());
}

TEST_CASE("limits: one record more than there are events is refused with the figure") {
  const World world(Options{{"max_records", "3"}});
  const Device device = open_device();
  const Stream one = make_stream(device), two = make_stream(device);
  const Memory memory = allocate(device, 8);
  uint64_t value = 0, last = 0;
  for (int i = 0; i < 3; ++i) {
    const Stream& stream = i % 2 == 0 ? one : two;
    fill(stream, span(memory, 0, 8), 1);
    value = record(stream);
  }
  CHECK(record(one) == value);  // with nothing enqueued since, none is needed
  fill(two, span(memory, 0, 8), 1);
  const Outcome said = try_record(two, last);
  CHECK(said.code == TN_NO_MEMORY);
  CHECK(said.says("3 of at most 3 records"));
  CHECK(try_sync(one, value).ok());
  CHECK(try_record(two, last).ok());
}

TEST_CASE("limits: where record blocks, it waits until an event is free") {
  const World world(Options{{"max_records", "2"}, {"record_blocks", "true"}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 8);
  uint64_t first = 0;
  for (int i = 0; i < 50; ++i) {
    fill(stream, span(memory, 0, 8), 1);
    const uint64_t value = record(stream);
    if (i == 0) first = value;
  }
  CHECK(try_sync(stream, first, 0).ok());  // the blocked records made it run
  drain(stream);
}

TEST_CASE("limits: without queries, progress is what a sync was told") {
  const World world(Options{{"event_query", "false"}});
  const Device device = open_device();
  for (const uint64_t timeout : {uint64_t{0}, uint64_t{TN_TIMEOUT_NEVER}}) {
    CAPTURE(timeout);
    const Stream stream = make_stream(device), other = make_stream(device);
    const Memory memory = allocate(device, 8);
    fill(stream, span(memory, 0, 8), 1);
    const uint64_t value = record(stream);
    wait(other, stream, value);
    fill(other, span(memory, 0, 8), 2);
    drain(other);  // so `value` is reached, and nobody was told
    CHECK(query(stream) == 0);
    CHECK(try_sync(stream, value, timeout).ok());
    CHECK(query(stream) == value);
  }
}

TEST_CASE("limits: copies that are not aligned are refused where a profile asks for alignment") {
  const World world(Options{{"copy_alignment", "64"}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory a = allocate(device, 256), b = allocate(device, 256);
  CHECK(try_copy(stream, span(a, 64, 128), span(b, 0, 128)).ok());
  CHECK(try_copy(stream, span(a, 0, 100), span(b, 0, 100)).code == TN_UNSUPPORTED);
  const Outcome said = try_copy(stream, span(a, 0, 64), span(b, 32, 64));
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK(said.says("multiples of 64"));
  drain(stream);
}

TEST_CASE("limits: an exclusive device is opened once at a time") {
  const World world(Options{{"exclusive", "true"}});
  Device first = open_device(), second;
  const Outcome said = try_open(second);
  CHECK(said.code == TN_BUSY);
  CHECK(said.says("attached already"));
  first.reset();
  CHECK(try_open(second).ok());
}

TEST_CASE("limits: a synchronous device has done the work when the call returns") {
  const World world(Options{{"synchronous", "true"}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 64);
  std::vector<unsigned char> host(64, 1);
  fill(stream, span(memory, 0, 64), 9);
  copy(stream, host_span(host.data(), 64), span(memory, 0, 64));
  CHECK(host == std::vector<unsigned char>(64, 9));
  const uint64_t value = record(stream);
  CHECK(query(stream) == value);
}

TEST_CASE("limits: a device for whole graphs refuses a single op and runs a graph") {
  const World world(Options{{"profile", "ipu"}});
  const Device device = open_device();
  Group op(true), graph(false);
  const tn_support said = supports(device, op.fragment());
  CHECK(said.verdict == TN_SUPPORT_NO);
  CHECK(std::string(said.reason).find("no whole graph") != std::string::npos);
  CHECK(supports(device, graph.fragment()).verdict == TN_SUPPORT_NATIVE);
  CHECK(run(device, graph.fragment(), inputs, 4) == answer);
}

TEST_CASE("limits: fragments of too many nodes or bindings are refused") {
  const World world(Options{{"max_nodes", "1"}, {"max_bindings", "2"}});
  const Device device = open_device();
  Group op(true), graph(false);
  CHECK(std::string(supports(device, graph.fragment()).reason).find("at most 1") != std::string::npos);
  CHECK(std::string(supports(device, op.fragment()).reason).find("takes at most 2") != std::string::npos);
}

TEST_CASE("limits: a dtype that a profile refuses is refused, not computed in another") {
  const World world(Options{{"profile", "mlu"}});
  const Device device = open_device();
  Group doubles(true, TN_DTYPE_f64), floats(true);
  const tn_support said = supports(device, doubles.fragment());
  CHECK(said.verdict == TN_SUPPORT_NO);
  CHECK(std::string(said.reason).find("f64") != std::string::npos);
  CHECK(supports(device, floats.fragment()).verdict == TN_SUPPORT_NATIVE);
  tn_kernel* kernel = nullptr;
  const Outcome compiled = outcome_of([&](tn_error* e) {
    return plugin().kernel->compile(device, &doubles.fragment(), nullptr, &kernel, e);
  });
  CHECK(compiled.code == TN_UNSUPPORTED);
}

TEST_CASE("limits: one-shot executors are the plugin's affair: a kernel is launched many times") {
  const World world(Options{{"capture", "false"}, {"one_shot_kernels", "true"}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  Group f(false);
  const Kernel kernel = compile(device, f.fragment());
  const Memory memory = allocate(device, 48), room = allocate(device, workspace_bytes(kernel));
  const tn_span bindings[] = {span(memory, 0, 16), span(memory, 16, 16), span(memory, 32, 16)};
  for (int i = 0; i < 5; ++i) launch(kernel, stream, bindings, span(room, 0, workspace_bytes(kernel)));
  CHECK(try_sync(stream, record(stream)).ok());
}

TEST_CASE("limits: a demanded workspace is used to its last byte, whatever was in it") {
  for (const char* const kib : {"64", "16384"}) {
    CAPTURE(kib);
    const World world(Options{{"workspace_kib", kib}});
    const Device device = open_device();
    const Stream stream = make_stream(device);
    Group f(true);
    const Kernel kernel = compile(device, f.fragment());
    const uint64_t bytes = workspace_bytes(kernel);
    CHECK(bytes >= std::stoull(kib) << 10);
    const Memory memory = allocate(device, 48), room = allocate(device, bytes);
    const tn_span bindings[] = {span(memory, 0, 16), span(memory, 16, 16), span(memory, 32, 16)};
    fill(stream, span(room, 0, bytes), 7);
    launch(kernel, stream, bindings, span(room, 0, bytes));
    const auto left = download(stream, span(room, 4096, bytes - 4096));  // what the nodes keep there is small
    CHECK(std::count(left.begin(), left.end(), 7) == 0);
    CHECK(left.back() != 0);
    fill(stream, span(room, 0, bytes), 0);
    launch(kernel, stream, bindings, span(room, 0, bytes));
    const auto zeros = download(stream, span(room, bytes / 2, bytes / 4));
    CHECK(std::count(zeros.begin(), zeros.end(), 0) < static_cast<int64_t>(zeros.size()));
  }
}

TEST_CASE("limits: a kernel that needs more workspace than is allowed is refused with both figures") {
  const World world(Options{{"workspace_kib", "64"}});
  const Device device = open_device();
  Group f(true);
  tn_compile_options less{};
  less.size = sizeof less;
  less.workspace_limit = workspace_bytes(compile(device, f.fragment())) - 1;
  tn_kernel* none = nullptr;
  const Outcome said = outcome_of(
      [&](tn_error* e) { return plugin().kernel->compile(device, &f.fragment(), &less, &none, e); });
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK(said.says("the limit is"));
}

TEST_CASE("limits: a stream may be used from any thread, whoever made it") {
  const World world(Options{{"profile", "ascend"}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 64);
  std::thread([&] {
    fill(stream, span(memory, 0, 64), 3);
    drain(stream);
  }).join();
  CHECK(download(stream, span(memory, 0, 64)) == std::vector<unsigned char>(64, 3));
}

TEST_CASE("limits: quiesce finishes what is queued and stops the threads, and work goes on afterwards") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 64);
  fill(stream, span(memory, 0, 64), 3);
  const uint64_t value = record(stream);
  must([](tn_error* e) { return plugin().quiesce(&plugin(), e); });
  CHECK(query(stream) == value);
  fill(stream, span(memory, 0, 64), 4);
  CHECK(download(stream, span(memory, 0, 64)) == std::vector<unsigned char>(64, 4));
}
