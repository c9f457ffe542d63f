// SPDX-License-Identifier: Apache-2.0
// comm_test.cpp: communicators behind the layers: what orders submits, which spans a rank uses, and what is refused.
#include "layered.hpp"
#include "scratch.hpp"

#include <tenon/replay.hpp>

using namespace tenon;
using namespace tenon::test;

namespace {

// Two streams, a memory and a communicator of rank 1 of 2.
struct Group {
  explicit Group(const std::string& spec) : on(spec, {.has_comm = true}) {
    device = on.call->open();
    a = on.call->stream(device, "a");
    b = on.call->stream(device, "b");
    memory = on.call->alloc(device, 4096);
    tn_comm_options options{};
    options.size = sizeof options;
    options.name = "ring";
    const char id = 0;
    REQUIRE(on.top().comm->create(device, 1, 2, &id, 1, &options, &comm, nullptr) == TN_OK);
  }
  ~Group() {
    if (comm != nullptr) CHECK(on.top().comm->destroy(comm, 0, nullptr) == TN_OK);
    on.call->destroy(a);
    on.call->destroy(b);
    on.call->free(memory);
    on.call->close(device);
  }
  static tn_comm_op op(uint32_t kind, tn_span send, tn_span recv, int32_t peer = 0) {
    tn_comm_op out{};
    out.kind = kind;
    out.dtype = TN_DTYPE_f32;
    out.reduce = TN_REDUCE_SUM;
    out.peer = peer;
    out.count = send.bytes / 4;
    out.send = send;
    out.recv = recv;
    return out;
  }
  int32_t submit(tn_stream* stream, const tn_comm_op& op, std::string* said = nullptr) {
    tn_error error = no_error();
    const int32_t code = on.top().comm->submit(comm, stream, &op, 1, &error);
    if (said != nullptr) *said = error.message;
    return code;
  }

  Layered on;
  tn_device* device = nullptr;
  tn_stream *a = nullptr, *b = nullptr;
  tn_memory* memory = nullptr;
  tn_comm* comm = nullptr;
};

}  // namespace

TEST_CASE("validate: submits of one communicator are in order, other work on their bytes is not") {
  Group g("validate");
  const tn_span all = span_of(g.memory, 0, 1024);
  CHECK(g.submit(g.a, Group::op(TN_COMM_ALL_REDUCE, all, all)) == TN_OK);
  CHECK(g.submit(g.b, Group::op(TN_COMM_ALL_REDUCE, all, all)) == TN_OK);
  CHECK(g.on.found() == "");
  g.on.call->fill(g.a, all, 1.0f);
  CHECK_HAS(g.on.found(),
            "submit to communicator 'ring' #7 on stream 'b' writes memory #1 [0, 1024); fill #8 on stream "
            "'a' writes");
}

TEST_CASE("validate: a rank is charged only with the side of an operation that it takes part in") {
  Group g("validate");
  const tn_span send = span_of(g.memory, 0, 256), recv = span_of(g.memory, 256, 256);
  CHECK(g.submit(g.a, Group::op(TN_COMM_REDUCE, send, recv, 0)) == TN_OK);  // rank 0 receives, this is rank 1
  g.on.call->fill(g.b, recv, 1.0f);
  CHECK(g.on.found() == "");
  CHECK(g.submit(g.a, Group::op(TN_COMM_BROADCAST, send, recv, 0)) == TN_OK);  // rank 0 sends
  CHECK_HAS(g.on.found(),
            "fill #7 on stream 'b' writes memory #1 [256, 512); submit to communicator 'ring' #8 on stream "
            "'a' writes");
  CHECK(g.on.layer->report().size() == 1);
}

TEST_CASE("validate: a submit is refused for spans outside their memory and for an ended communicator") {
  Group g("validate");
  std::string said;
  const tn_span past = span_of(g.memory, 4000, 256), in = span_of(g.memory, 0, 256);
  CHECK(g.submit(g.a, Group::op(TN_COMM_ALL_REDUCE, past, in), &said) == TN_INVALID);
  CHECK_HAS(said, "send of op 0 [4000, 4256) goes past the end of memory #1");
  tn_comm* part = nullptr;
  CHECK(g.on.top().comm->split(g.comm, 0, 0, nullptr, &part, nullptr) == TN_OK);
  CHECK(g.on.top().comm->health(part, nullptr) == TN_OK);
  CHECK(g.on.top().comm->destroy(part, 0, nullptr) == TN_OK);
  CHECK(g.on.top().comm->abort(part, nullptr) == TN_INVALID);
  CHECK_HAS(g.on.found(), "use after the end: communicator is communicator #2");
  const char id = 0;
  CHECK(g.on.top().comm->create(g.device, 5, 2, &id, 1, nullptr, &part, nullptr) == TN_INVALID);
  CHECK_HAS(g.on.found(), "rank 5 is outside a group of 2");
}

TEST_CASE("fault: a lost device takes its communicators along") {
  Group g("fault=submit:2:device_lost;health:1:peer_lost");
  const tn_span all = span_of(g.memory, 0, 1024);
  CHECK(g.on.top().comm->health(g.comm, nullptr) == TN_PEER_LOST);
  CHECK(g.submit(g.a, Group::op(TN_COMM_ALL_REDUCE, all, all)) == TN_OK);
  CHECK(g.submit(g.a, Group::op(TN_COMM_ALL_REDUCE, all, all)) == TN_DEVICE_LOST);
  CHECK(g.on.top().comm->health(g.comm, nullptr) == TN_DEVICE_LOST);
}

TEST_CASE("record: a collective is a step that a replay says it cannot make") {
  const ScratchFile file("comm.rec");
  {
    Group g("record=" + file.path());
    CHECK(g.submit(g.a, Group::op(TN_COMM_BARRIER, {}, {})) == TN_OK);
  }
  const MiniPlugin plugin;
  const auto report = replay(file.path(), plugin.descriptor());
  REQUIRE(report.ok());
  CHECK(report->skipped == 1);
  CHECK_HAS(report->notes.at(0), "a collective needs the other ranks");
}
