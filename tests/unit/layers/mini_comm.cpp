// SPDX-License-Identifier: Apache-2.0
// mini_comm.cpp: the mini plugin's communicators: they take what is submitted and move nothing.
#include "mini_handles.hpp"

struct tn_comm {
  tn_device* device;
};

namespace tenon::test::mini {
namespace {

int32_t id_bytes(tn_device*, uint64_t* bytes, tn_error*) { return *bytes = 1, TN_OK; }
int32_t make_id(tn_device*, void*, uint64_t, tn_error*) { return TN_OK; }

int32_t create(tn_device* device, uint32_t, uint32_t, const void*, uint64_t, const tn_comm_options*,
               tn_comm** out, tn_error*) {
  adopt(device);
  *out = new tn_comm{device};
  return TN_OK;
}

int32_t limits(tn_comm*, tn_comm_limits*, tn_error*) { return TN_OK; }

int32_t submit(tn_comm*, tn_stream* stream, const tn_comm_op*, uint32_t, tn_error*) {
  ++stream->device->plugin->enqueued;
  return TN_OK;
}

int32_t split(tn_comm* comm, int32_t color, int32_t, const tn_comm_options* options, tn_comm** out,
              tn_error* error) {
  *out = nullptr;
  return color < 0 ? TN_OK : create(comm->device, 0, 1, nullptr, 0, options, out, error);
}

int32_t fine(tn_comm*, tn_error*) { return TN_OK; }

int32_t destroy(tn_comm* comm, uint64_t, tn_error*) {
  drop(comm->device);
  delete comm;
  return TN_OK;
}

}  // namespace

tn_comm_api comm_table() {
  return {.header = {sizeof(tn_comm_api), 1, 0},
          .id_bytes = id_bytes,
          .make_id = make_id,
          .create = create,
          .limits = limits,
          .submit = submit,
          .split = split,
          .abort = fine,
          .health = fine,
          .destroy = destroy};
}

}  // namespace tenon::test::mini
