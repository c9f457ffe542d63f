// SPDX-License-Identifier: Apache-2.0
// guard_test.cpp: what an author throws or returns, as a caller of the C tables sees it.
// Invariant: each case walks over every call that reaches an author's method.
#include "calls.hpp"

#include <sys/wait.h>
#include <unistd.h>
#include <cstdlib>

using namespace scripted;

namespace {

constexpr size_t slots_of(size_t table_bytes) { return (table_bytes - sizeof(tn_header)) / sizeof(void*); }

// Runs `body` in a forked child; the child's exit code is how many of its expectations failed.
template <class Body>
int failures_in_child(Body&& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("guard: the list of calls is complete") {
  // Slots whose author method is a destructor or `finish`, or that never reach the author: close, free,
  // limits and peer of the device, destroy of stream, kernel and communicator.
  CHECK(device_calls().size() == slots_of(sizeof(tn_device_api)) - 4 + 1 /* quiesce */);
  CHECK(stream_calls().size() == slots_of(sizeof(tn_stream_api)) - 1);
  CHECK(kernel_calls().size() == slots_of(sizeof(tn_kernel_api)) - 1);
  CHECK(comm_calls().size() == slots_of(sizeof(tn_comm_api)) - 1);
}

TEST_CASE("guard: every call reaches its author's method") {
  for (const Call& call : all_calls()) {
    Bench bench;
    // What the call itself creates would outlive the bench, so creation is made to fail after it was seen.
    script.acts[call.method] = [] { return Status(TN_UNSUPPORTED, "seen"); };
    const int32_t code = call.make(bench, &bench.error);
    CHECK_MESSAGE(script.called(call.method), call.method);
    CHECK_MESSAGE(code == (can_fail(call.method) ? TN_UNSUPPORTED : TN_OK), call.method);
  }
}

TEST_CASE("guard: a failure keeps its code and text and is signed with the plugin's name") {
  for (const Call& call : all_calls()) {
    if (!can_fail(call.method)) continue;
    Bench bench;
    script.acts[call.method] = [] { return Status(TN_DEVICE_LOST, "the cable fell out"); };
    CHECK_MESSAGE(call.make(bench, &bench.error) == TN_DEVICE_LOST, call.method);
    CHECK(bench.error.code == TN_DEVICE_LOST);
    CHECK(std::string(bench.error.message) == "the cable fell out");
    CHECK(std::string(bench.error.domain) == "scripted");
  }
}

TEST_CASE("guard: a failure that names its own domain, native code and flags keeps them") {
  Bench bench;
  script.acts["Stream::copy"] = [] {
    return Status(tenon::Error{.code = TN_INTERNAL,
                               .message = "m",
                               .domain = "driver",
                               .native_code = 719,
                               .flags = TN_ERROR_ASYNC});
  };
  const tn_span dst = bench.span(0, 8), src = bench.span(8, 8);
  CHECK(bench.plugin->stream->copy(bench.stream, &dst, &src, &bench.error) == TN_INTERNAL);
  CHECK(std::string(bench.error.domain) == "driver");
  CHECK(bench.error.native_code == 719);
  CHECK(bench.error.flags == TN_ERROR_ASYNC);
}

TEST_CASE("guard: an exception becomes TN_INTERNAL with its text") {
  for (const Call& call : all_calls()) {
    Bench bench;
    script.acts[call.method] = []() -> Status { throw std::runtime_error("nobody caught me"); };
    CHECK_MESSAGE(call.make(bench, &bench.error) == TN_INTERNAL, call.method);
    CHECK(std::string(bench.error.message) == "nobody caught me");
    CHECK(std::string(bench.error.domain) == "scripted");
  }
}

TEST_CASE("guard: running out of host memory becomes TN_NO_MEMORY") {
  for (const Call& call : all_calls()) {
    Bench bench;
    script.acts[call.method] = []() -> Status { throw std::bad_alloc(); };
    CHECK_MESSAGE(call.make(bench, &bench.error) == TN_NO_MEMORY, call.method);
  }
}

TEST_CASE("guard: a thrown thing that is no exception becomes TN_INTERNAL") {
  for (const Call& call : all_calls()) {
    Bench bench;
    script.acts[call.method] = []() -> Status { throw 7; };
    CHECK_MESSAGE(call.make(bench, &bench.error) == TN_INTERNAL, call.method);
  }
}

TEST_CASE("guard: a NULL error is legal") {
  for (const Call& call : all_calls()) {
    Bench bench;
    script.acts[call.method] = []() -> Status { throw std::runtime_error("unheard"); };
    CHECK_MESSAGE(call.make(bench, nullptr) == TN_INTERNAL, call.method);
  }
}

TEST_CASE("guard: an error is untouched when all is well") {
  Bench bench;
  std::memset(&bench.error, 0x5A, sizeof bench.error);
  bench.error.size = sizeof bench.error;
  const tn_error before = bench.error;
  uint64_t value = 0;
  CHECK(bench.plugin->stream->record(bench.stream, 0, &value, &bench.error) == TN_OK);
  CHECK(std::memcmp(&before, &bench.error, sizeof before) == 0);
}

TEST_CASE("guard: a stream that throws in finish is destroyed all the same") {
  Bench bench;
  tn_stream* stream = nullptr;
  bench.good(bench.plugin->stream->create(bench.device, nullptr, &stream, &bench.error));
  script.acts["Stream::finish"] = []() -> Status { throw std::runtime_error("no end"); };
  CHECK(bench.plugin->stream->destroy(stream, TN_DESTROY_COMPLETE, &bench.error) == TN_INTERNAL);
  CHECK(std::string(bench.error.message) == "no end");
  // The bench closes its device at the end, which would be TN_BUSY if the stream still counted.
}

TEST_CASE("guard: a throwing extension look-up finds nothing") {
  Session session;
  CHECK(session.plugin->extension(session.plugin, "test.thing/1") != nullptr);
  CHECK(session.plugin->extension(session.plugin, "test.other/1") == nullptr);
  CHECK(session.plugin->extension(session.plugin, nullptr) == nullptr);
  CHECK(session.plugin->extension(nullptr, "test.thing/1") == nullptr);
  script.acts["Plugin::extension"] = []() -> Status { throw std::runtime_error("lost"); };
  CHECK(session.plugin->extension(session.plugin, "test.thing/1") == nullptr);
}

TEST_CASE("guard: a forked child is refused everything but farewells") {
  Bench bench;
  const int failures = failures_in_child([&] {
    int wrong = 0;
    script.calls.clear();
    for (const Call& call : all_calls()) {
      wrong += call.make(bench, &bench.error) != TN_INVALID;
      wrong += !bench.said("forked");
    }
    wrong += bench.plugin->extension(bench.plugin, "test.thing/1") != nullptr;
    wrong += tenon::author::entry<Plugin>(&bench.host, &bench.error) != nullptr;
    wrong += bench.plugin->device->free(bench.memory, &bench.error) != TN_OK;
    wrong += bench.plugin->kernel->destroy(bench.kernel, &bench.error) != TN_OK;
    wrong += bench.plugin->comm->destroy(bench.comm, 0, &bench.error) != TN_OK;
    wrong += bench.plugin->stream->destroy(bench.stream, TN_DESTROY_COMPLETE, &bench.error) != TN_OK;
    wrong += bench.plugin->device->close(bench.device, &bench.error) != TN_OK;
    return wrong + !script.calls.empty();  // none of it reached the author: its threads are not here
  });
  CHECK(failures == 0);
  uint64_t value = 0;
  CHECK(bench.plugin->stream->record(bench.stream, 0, &value, &bench.error) == TN_OK);  // the parent lives on
}
