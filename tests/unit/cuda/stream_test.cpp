// SPDX-License-Identifier: Apache-2.0
// stream_test.cpp: timelines over native events: records, waits, promises, times, deadlines, failures.
#include "world.hpp"

#include <atomic>
#include <thread>

using namespace cuda_test;

namespace {

struct Two {
  World world;
  Device device = open_device();
  Stream stream = make_stream(device), other = make_stream(device), promises = make_stream(device);
  Memory memory = allocate(device, 4096);

  // Holds `held` up until the promise is kept.
  uint64_t hold(tn_stream* held) {
    const uint64_t value = promise(promises);
    wait(held, promises, value);
    return value;
  }
};

Outcome try_timestamp(tn_stream* stream, uint64_t value, uint64_t& ns) {
  return outcome_of([&](tn_error* e) { return plugin().stream->timestamp(stream, value, &ns, e); });
}

Outcome try_destroy(Stream& stream, uint32_t mode = TN_DESTROY_COMPLETE) {
  return outcome_of([&](tn_error* e) { return plugin().stream->destroy(stream.release(), mode, e); });
}

}  // namespace

TEST_CASE("stream: with nothing enqueued since, record repeats its value") {
  CUDA_DRIVER("");
  Two t;
  CHECK(record(t.stream) == 0);
  fill(t.stream, span(t.memory, 0, 64), 1);
  const uint64_t value = record(t.stream);
  CHECK(value > 0);
  CHECK(record(t.stream) == value);
  fill(t.stream, span(t.memory, 0, 64), 1);
  const uint64_t last = record(t.stream);
  CHECK(last > value);
  CHECK(try_sync(t.stream, last).message() == "");  // before the memory goes
}

TEST_CASE("stream: a value is reached when its work is done, and not before") {
  CUDA_DRIVER("");
  Two t;
  const uint64_t held = t.hold(t.stream);
  fill(t.stream, span(t.memory, 0, 64), 1);
  const uint64_t value = record(t.stream);
  CHECK(query(t.stream) < value);
  CHECK(try_sync(t.stream, value, 0).code == TN_TIMEOUT);
  CHECK(try_signal(t.promises, held).message() == "");
  CHECK(try_sync(t.stream, value).message() == "");
  CHECK(query(t.stream) >= value);
}

TEST_CASE("stream: a deadline that passes is told with both values, and poisons nothing") {
  CUDA_DRIVER("");
  Two t;
  const uint64_t held = t.hold(t.stream);
  const uint64_t value = record(t.stream);
  const Outcome said = try_sync(t.stream, value, 3'000'000);
  CHECK(said.code == TN_TIMEOUT);
  CHECK(said.says("3000000 ns"));
  CHECK(try_signal(t.promises, held).message() == "");
  CHECK(try_sync(t.stream, value, 10'000'000'000).message() == "");
}

TEST_CASE("stream: a wait holds back the work after it, on streams of one device and of two" * fake_only) {
  CUDA_DRIVER("");
  Two t;
  const Device second = open_device(1);
  const Stream far = make_stream(second);
  const Memory there = allocate(second, 64);
  const uint64_t held = t.hold(t.stream);
  fill(t.stream, span(t.memory, 0, 64), 7);
  const uint64_t value = record(t.stream);
  wait(t.other, t.stream, value);
  wait(far, t.stream, value);
  fill(t.other, span(t.memory, 64, 64), 8);
  fill(far, span(there, 0, 64), 9);
  const uint64_t near_value = record(t.other), far_value = record(far);
  CHECK(query(t.other) < near_value);
  CHECK(query(far) < far_value);
  CHECK(try_signal(t.promises, held).message() == "");
  CHECK(try_sync(t.other, near_value).message() == "");
  CHECK(try_sync(far, far_value).message() == "");
}

TEST_CASE("stream: promises are kept in any order, each once, and are reached in order") {
  CUDA_DRIVER("");
  Two t;
  const uint64_t first = promise(t.promises), second = promise(t.promises);
  wait(t.stream, t.promises, first);
  wait(t.other, t.promises, second);
  const uint64_t after_first = record(t.stream), after_second = record(t.other);
  CHECK(try_signal(t.promises, second).message() == "");
  CHECK(query(t.promises) == 0);
  CHECK(try_sync(t.other, after_second, 1'000'000).code == TN_TIMEOUT);
  CHECK(try_signal(t.promises, second).code == TN_INVALID);
  CHECK(try_signal(t.promises, first).message() == "");
  CHECK(query(t.promises) == second);
  CHECK(try_sync(t.stream, after_first).message() == "");
  CHECK(try_sync(t.other, after_second).message() == "");
}

TEST_CASE("stream: a broken promise poisons its stream, and lets those who wait go on") {
  CUDA_DRIVER("");
  Two t;
  const uint64_t held = t.hold(t.stream);
  const uint64_t value = record(t.stream);
  CHECK(try_signal(t.promises, held, TN_PEER_LOST).message() == "");
  CHECK(try_sync(t.stream, value).message() == "");
  const Outcome said = try_sync(t.promises, held);
  CHECK(said.code == TN_PEER_LOST);
  CHECK(said.error.flags == TN_ERROR_ASYNC);
}

TEST_CASE("stream: one that makes promises carries no work, and one that has worked makes none") {
  CUDA_DRIVER("");
  Two t;
  const uint64_t held = promise(t.promises);
  const Outcome work = try_fill(t.promises, span(t.memory, 0, 64), 1);
  CHECK(work.code == TN_INVALID);
  CHECK(work.says("another stream"));
  fill(t.stream, span(t.memory, 0, 64), 1);
  uint64_t value = 0;
  CHECK(outcome_of([&](tn_error* e) { return plugin().stream->promise(t.stream, &value, e); }).code ==
        TN_INVALID);
  drain(t.stream);
  CHECK(try_signal(t.promises, held).message() == "");
}

TEST_CASE("stream: promises never kept are counted when their stream ends, and hold nobody up") {
  CUDA_DRIVER("");
  Two t;
  t.hold(t.stream);
  const uint64_t value = record(t.stream);
  const Outcome said = try_destroy(t.promises);
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("1 promises"));
  CHECK(try_sync(t.stream, value).message() == "");
}

TEST_CASE("stream: timed values tell the device's time, in order, on all streams of a device") {
  CUDA_DRIVER("");
  Two t;
  uint64_t first = 0, second = 0, third = 0;
  const uint64_t a = record(t.stream, TN_RECORD_TIMED);
  fill(t.stream, span(t.memory, 0, 4096), 1);
  const uint64_t b = record(t.stream, TN_RECORD_TIMED);
  wait(t.other, t.stream, b);
  const uint64_t c = record(t.other, TN_RECORD_TIMED);
  drain(t.stream);
  drain(t.other);
  CHECK(try_timestamp(t.stream, a, first).message() == "");
  CHECK(try_timestamp(t.stream, b, second).message() == "");
  CHECK(try_timestamp(t.other, c, third).message() == "");
  CHECK(first <= second);
  CHECK(second <= third);
}

TEST_CASE("stream: a value without a time, or not reached, says which") {
  CUDA_DRIVER("");
  Two t;
  uint64_t ns = 0;
  fill(t.stream, span(t.memory, 0, 64), 1);
  const uint64_t plain = record(t.stream);
  drain(t.stream);
  const Outcome untimed = try_timestamp(t.stream, plain, ns);
  CHECK(untimed.code == TN_INVALID);
  CHECK(untimed.says("TN_RECORD_TIMED"));
  const uint64_t held = t.hold(t.stream);
  const uint64_t value = record(t.stream, TN_RECORD_TIMED);
  const Outcome early = try_timestamp(t.stream, value, ns);
  CHECK(early.code == TN_INVALID);
  CHECK(early.says("not reached"));
  CHECK(try_signal(t.promises, held).message() == "");
}

TEST_CASE("stream: host calls run in order") {
  CUDA_DRIVER("");
  Two t;
  std::atomic<int> calls{0};
  const uint64_t held = t.hold(t.stream);
  must([&](tn_error* e) {
    return plugin().stream->host_call(
        t.stream, [](void* argument) { ++*static_cast<std::atomic<int>*>(argument); }, &calls, e);
  });
  CHECK(calls == 0);
  CHECK(try_signal(t.promises, held).message() == "");
  drain(t.stream);
  CHECK(calls == 1);
}

TEST_CASE(
    "stream: a kernel that faults loses the device, is told as asynchronous, and only endings are left" *
    fake_only) {
  CUDA_DRIVER("launch_error_at=3");  // each stream begins with one
  World world;
  Device device = open_device();
  Stream stream = make_stream(device), other = make_stream(device);
  Memory a = allocate(device, 64);
  fill(stream, span(a, 0, 64), 0);
  const uint64_t before = record(stream);
  CHECK(try_sync(stream, before).message() == "");
  Addition f(4);
  Kernel kernel = compile(device, f.fragment());
  const tn_span bindings[] = {span(a, 0, 16), span(a, 16, 16), span(a, 32, 16)};
  launch(kernel, stream, bindings, {});
  uint64_t value = 0;
  Outcome said = try_record(stream, value);
  if (said.ok()) said = try_sync(stream, value);
  CHECK(said.code == TN_DEVICE_LOST);
  CHECK(said.error.flags == TN_ERROR_ASYNC);
  CHECK(said.error.native_code == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(try_sync(stream, before).message() == "");  // reached before the failure
  Memory more;
  CHECK(try_allocate(device, 64, more).code == TN_DEVICE_LOST);
  tn_stream* third = nullptr;
  CHECK(outcome_of([&](tn_error* e) { return plugin().stream->create(device, nullptr, &third, e); }).code ==
        TN_DEVICE_LOST);
  CHECK(try_destroy(stream, TN_DESTROY_ABANDON).message() == "");
}

namespace {

// A device that is lost by what is enqueued on its one stream, when that runs.
struct Doomed {
  Addition addition{4};
  Device device = open_device();
  Stream stream = make_stream(device);
  Memory memory = allocate(device, 64);
  Kernel kernel = compile(device, addition.fragment());
  Doomed() {
    const tn_span bindings[] = {span(memory, 0, 16), span(memory, 16, 16), span(memory, 32, 16)};
    launch(kernel, stream, bindings, {});
  }
};

}  // namespace

TEST_CASE("stream: a device that was lost is opened anew once all its handles have ended" * fake_only) {
  CUDA_DRIVER("launch_error_at=2");
  const World world;
  {
    Doomed old;
    uint64_t value = 0;
    Outcome said = try_record(old.stream, value);
    if (said.ok()) said = try_sync(old.stream, value);
    REQUIRE(said.code == TN_DEVICE_LOST);
    Device again;
    CHECK(try_open(again).code == TN_DEVICE_LOST);  // while the first one's handles live
  }
  check_it_adds();
}

TEST_CASE("stream: a device whose loss nobody was told of is opened anew, too" * fake_only) {
  CUDA_DRIVER("launch_error_at=2");
  const World world;
  {
    Doomed old;
    CHECK(try_destroy(old.stream, TN_DESTROY_ABANDON).message() == "");
  }
  check_it_adds();
}

TEST_CASE("stream: a launch that is refused says so at once, and poisons nothing" * fake_only) {
  CUDA_DRIVER("launch_refused_at=2");
  World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory a = allocate(device, 64);
  fill(stream, span(a, 0, 64), 0);
  Addition f(4);
  const Kernel kernel = compile(device, f.fragment());
  const tn_span bindings[] = {span(a, 0, 16), span(a, 16, 16), span(a, 32, 16)};
  const auto try_launch = [&] {
    return outcome_of(
        [&](tn_error* e) { return plugin().kernel->launch(kernel, stream, bindings, 3, nullptr, e); });
  };
  CHECK(try_launch().error.native_code == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(try_launch().message() == "");
  drain(stream);
}

TEST_CASE("stream: one that cannot begin is not made, and nothing of it stays" * fake_only) {
  CUDA_DRIVER("launch_refused_at=1,check");
  const World world;
  const Device device = open_device();
  const auto kinds_left = [] { return driver_function<unsigned()>("fakecuda_left_over")(); };
  const unsigned before = kinds_left();
  tn_stream* made = nullptr;
  const Outcome said =
      outcome_of([&](tn_error* e) { return plugin().stream->create(device, nullptr, &made, e); });
  CHECK(said.error.native_code == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK((made == nullptr));
  CHECK(kinds_left() == before);  // streams are a kind
  const Stream stream = make_stream(device);
  CHECK(kinds_left() == before + 1);
  const Memory memory = allocate(device, 64);
  fill(stream, span(memory, 0, 64), 1);
  drain(stream);
}

TEST_CASE("stream: abandoning one that is held up comes back, and so does what it waits for") {
  CUDA_DRIVER("");
  Two t;
  const uint64_t held = t.hold(t.stream);
  std::thread keeper([&] { CHECK(try_signal(t.promises, held).message() == ""); });
  CHECK(try_destroy(t.stream, TN_DESTROY_ABANDON).message() == "");
  keeper.join();
}

TEST_CASE("stream: the most urgent priority is the most urgent of the driver, and one too many is refused") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  tn_device_limits limits{};
  limits.size = sizeof limits;
  must([&](tn_error* e) { return plugin().device->limits(device, &limits, e); });
  REQUIRE(limits.priorities > 1);
  const Current current;
  int least = 0, greatest = 0;
  driver_function<CUresult(int*, int*)>("cuCtxGetStreamPriorityRange")(&least, &greatest);
  REQUIRE(least - greatest + 1 == static_cast<int>(limits.priorities));
  for (uint32_t priority = 0; priority < limits.priorities; ++priority) {
    CAPTURE(priority);
    const tn_stream_options options{.size = sizeof options, .priority = priority};
    tn_stream* made = nullptr;
    must([&](tn_error* e) { return plugin().stream->create(device, &options, &made, e); });
    const Stream stream(made);
    int native = 77;
    driver_function<CUresult(CUstream, int*)>("cuStreamGetPriority")(native_of(stream), &native);
    CHECK(native == least - static_cast<int>(priority));  // a smaller number is more urgent
  }
  const tn_stream_options options{.size = sizeof options, .priority = limits.priorities};
  tn_stream* made = nullptr;
  CHECK(outcome_of([&](tn_error* e) { return plugin().stream->create(device, &options, &made, e); }).code ==
        TN_INVALID);
}
