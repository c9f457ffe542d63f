// SPDX-License-Identifier: Apache-2.0
// comm_test.cpp: groups on their way to an author's communicator.
// Invariant: what the communicator's own limits do not list is refused by the framework, never coerced.
#include "scripted.hpp"

using namespace scripted;

namespace {

tn_comm_op all_reduce(Bench& b, uint32_t dtype, uint32_t reduce) {
  tn_comm_op op{};
  op.kind = TN_COMM_ALL_REDUCE;
  op.dtype = dtype;
  op.reduce = reduce;
  op.count = 16;
  op.send = b.span(0, 64);
  op.recv = b.span(64, 64);
  return op;
}
int32_t submit(Bench& b, const std::vector<tn_comm_op>& ops) {
  return b.plugin->comm->submit(b.comm, b.stream, ops.data(), static_cast<uint32_t>(ops.size()), &b.error);
}

}  // namespace

TEST_CASE("comm: what limits list is passed on") {
  Bench b;
  CHECK(submit(b, {all_reduce(b, TN_DTYPE_f32, TN_REDUCE_SUM)}) == TN_OK);
  CHECK(script.called("Comm::submit"));
  CHECK(submit(b, {}) == TN_OK);
}

TEST_CASE("comm: what limits do not list is TN_UNSUPPORTED by name") {
  Bench b;
  tn_comm_op op = all_reduce(b, TN_DTYPE_f32, TN_REDUCE_SUM);
  op.kind = TN_COMM_SEND;
  CHECK(submit(b, {op}) == TN_UNSUPPORTED);
  CHECK(b.said("operation 0: kind 8 is not in kind_mask"));
  CHECK(submit(b, {all_reduce(b, TN_DTYPE_f64, TN_REDUCE_SUM)}) == TN_UNSUPPORTED);
  CHECK(b.said("dtype f64 (13) is not in dtype_mask"));
  CHECK(submit(b, {all_reduce(b, TN_DTYPE_u8, TN_REDUCE_SUM)}) == TN_UNSUPPORTED);
  CHECK(b.said("u8 is not in reducible_mask"));
  CHECK(submit(b, {all_reduce(b, TN_DTYPE_f32, TN_REDUCE_SUM), all_reduce(b, TN_DTYPE_f32, TN_REDUCE_MAX)}) ==
        TN_UNSUPPORTED);
  CHECK(b.said("operation 1: reduction 4 is not in reduce_mask"));
  CHECK(submit(b, std::vector<tn_comm_op>(3, all_reduce(b, TN_DTYPE_f32, TN_REDUCE_SUM))) == TN_UNSUPPORTED);
  CHECK(b.said("3 operations in one submit; this communicator takes 2"));
  CHECK(!script.called("Comm::submit"));
}

TEST_CASE("comm: roots, spans and links are checked") {
  Bench b;
  tn_comm_op op = all_reduce(b, TN_DTYPE_f32, TN_REDUCE_SUM);
  op.kind = TN_COMM_BROADCAST;
  for (const int32_t root : {-1, 2}) {
    op.peer = root;
    CHECK(submit(b, {op}) == TN_INVALID);
  }
  CHECK(b.said("peer 2 of 2 ranks"));
  op.peer = 1;
  CHECK(submit(b, {op}) == TN_OK);
  op.recv = b.span(4090, 64);
  CHECK(submit(b, {op}) == TN_INVALID);
  CHECK(b.said("recv: offset 4090"));
  const tn_link unknown{nullptr, "test.unknown/1", sizeof(tn_link), TN_LINK_MUST_UNDERSTAND};
  op.recv = b.span(64, 64);
  op.next = &unknown;
  CHECK(submit(b, {op}) == TN_UNSUPPORTED);
}

TEST_CASE("comm: rank, size and id are checked at creation") {
  Bench b;
  tn_comm* comm = nullptr;
  char id[9] = {};
  CHECK(b.plugin->comm->create(b.device, 2, 2, id, 8, nullptr, &comm, &b.error) == TN_INVALID);
  CHECK(b.said("rank 2 of 2"));
  CHECK(b.plugin->comm->create(b.device, 0, 0, id, 8, nullptr, &comm, &b.error) == TN_INVALID);
  CHECK(b.plugin->comm->create(b.device, 0, 2, id, 9, nullptr, &comm, &b.error) == TN_INVALID);
  CHECK(b.said("an id has 8 bytes, not 9"));
  CHECK(b.plugin->comm->make_id(b.device, id, 4, &b.error) == TN_INVALID);
  CHECK(!script.called("Device::create_comm"));
}

TEST_CASE("comm: a split gives a communicator, or none for a negative color") {
  Bench b;
  tn_comm* part = nullptr;
  b.good(b.plugin->comm->split(b.comm, 3, 0, nullptr, &part, &b.error));
  REQUIRE(part != nullptr);
  b.good(b.plugin->comm->destroy(part, 0, &b.error));
  b.good(b.plugin->comm->split(b.comm, -1, 0, nullptr, &part, &b.error));
  CHECK(part == nullptr);
}

TEST_CASE("comm: destroy that times out invalidates the handle and leaves the object to its threads") {
  Bench b;
  tn_comm* comm = nullptr;
  b.good(b.plugin->comm->create(b.device, 0, 1, "12345678", 8, nullptr, &comm, &b.error));
  Comm* object = &tenon::author::object<Comm>(comm);
  script.acts["Comm::finish"] = [] { return Status(TN_TIMEOUT, "a rank hangs"); };
  CHECK(b.plugin->comm->destroy(comm, 1, &b.error) == TN_TIMEOUT);
  CHECK(object->health().ok());  // still there
  delete object;
}
