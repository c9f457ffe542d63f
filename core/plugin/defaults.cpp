// SPDX-License-Identifier: Apache-2.0
// defaults.cpp: see defaults.hpp. A default has no state: it is reached by a plugin's handle and knows nothing of it.
#include "plugin/defaults.hpp"

#include "base/extent.hpp"

#include <tenon/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tuple>

namespace tenon::plugin {
namespace {

int32_t unsupported(const char* what, tn_error* error) noexcept {
  tn_error text = no_error();
  text.code = TN_UNSUPPORTED;
  std::strncpy(text.domain, "tenon", sizeof text.domain - 1);
  std::strncpy(text.message, what, sizeof text.message - 1);
  text.message[sizeof text.message - 1] = '\0';
  if (error != nullptr) {
    const uint32_t size = error->size;
    std::memcpy(error, &text, std::min<size_t>(size, sizeof text));
    error->size = size;
  }
  return TN_UNSUPPORTED;
}

// A function of any signature that ends in tn_error* and refuses; `text` says what is missing.
template <class Function>
struct Refusal;
template <class... Arguments>
struct Refusal<int32_t (*)(Arguments...)> {
  template <const char* text>
  static int32_t call(Arguments... arguments) noexcept {
    const auto all = std::tuple(arguments...);
    return unsupported(text, std::get<sizeof...(Arguments) - 1>(all));
  }
};

constexpr char no_address[] = "this plugin gives no addresses of its memory: use memory + offset, or copy";
constexpr char no_strided[] = "this plugin has no strided copy: the host copies row by row";
constexpr char no_timestamp[] = "this plugin takes no timestamps";
constexpr char no_host_call[] =
    "this plugin has no host calls: the host synchronises the stream and calls itself";
constexpr char no_promise[] = "this plugin has no promises: the host blocks instead";
constexpr char no_save[] = "this plugin cannot save kernels: compile again";
constexpr char no_load[] = "this plugin cannot load saved kernels: compile again";
constexpr char no_layout[] = "this plugin has no private layouts: layout must be 0";
constexpr char no_kernel[] = "this plugin has no kernel interface: it offers memory and copies only";
constexpr char no_comm[] =
    "this plugin has no communicators of its own: the host stages collectives, see tenon::Communicator";
constexpr char no_split[] = "this plugin cannot split communicators: the host makes a new one";

#define REFUSE(table, slot, text) Refusal<decltype(table::slot)>::call<text>

int32_t no_peer(tn_device*, tn_device*, uint32_t* direct, tn_error*) noexcept {
  *direct = 0;
  return TN_OK;
}

int32_t no_patterns(tn_device*, tn_pattern_list* patterns, tn_error*) noexcept {
  *patterns = {};
  return TN_OK;
}

int32_t no_layouts(tn_device*, tn_string_list* names, tn_error*) noexcept {
  *names = {};
  return TN_OK;
}

int32_t strided_bytes(tn_device*, const tn_tensor* tensor, uint64_t* bytes, tn_error* error) noexcept {
  if (tensor->layout != 0) return unsupported(no_layout, error);
  *bytes = base::extent_of(*tensor).bytes;
  return TN_OK;
}

int32_t supports_nothing(tn_device*, const tn_fragment*, tn_support* support, tn_error*) noexcept {
  tn_support answer{};
  answer.size = support->size;
  answer.verdict = TN_SUPPORT_NO;
  std::strncpy(answer.reason, no_kernel, sizeof answer.reason - 1);
  std::memcpy(support, &answer, std::min<size_t>(support->size, sizeof answer));
  return TN_OK;
}

}  // namespace

const tn_device_api device_defaults = {
    .header = {},
    .address = REFUSE(tn_device_api, address, no_address),
    .peer = no_peer,
};

const tn_stream_api stream_defaults = {
    .header = {},
    .copy_strided = REFUSE(tn_stream_api, copy_strided, no_strided),
    .timestamp = REFUSE(tn_stream_api, timestamp, no_timestamp),
    .host_call = REFUSE(tn_stream_api, host_call, no_host_call),
    .promise = REFUSE(tn_stream_api, promise, no_promise),
    .signal = REFUSE(tn_stream_api, signal, no_promise),
};

const tn_kernel_api kernel_defaults = {
    .header = {},
    .patterns = no_patterns,
    .layouts = no_layouts,
    .layout_bytes = strided_bytes,
    .save = REFUSE(tn_kernel_api, save, no_save),
    .load = REFUSE(tn_kernel_api, load, no_load),
};

const tn_comm_api comm_defaults = {
    .header = {},
    .split = REFUSE(tn_comm_api, split, no_split),
};

const tn_kernel_api no_kernels = {
    .header = {sizeof(tn_kernel_api), TN_ABI_MAJOR, TN_ABI_MINOR},
    .supports = supports_nothing,
    .patterns = no_patterns,
    .layouts = no_layouts,
    .layout_bytes = strided_bytes,
    .compile = REFUSE(tn_kernel_api, compile, no_kernel),
    .info = REFUSE(tn_kernel_api, info, no_kernel),
    .launch = REFUSE(tn_kernel_api, launch, no_kernel),
    .destroy = REFUSE(tn_kernel_api, destroy, no_kernel),
    .save = REFUSE(tn_kernel_api, save, no_kernel),
    .load = REFUSE(tn_kernel_api, load, no_kernel),
};

const tn_comm_api no_comms = {
    .header = {sizeof(tn_comm_api), TN_ABI_MAJOR, TN_ABI_MINOR},
    .id_bytes = REFUSE(tn_comm_api, id_bytes, no_comm),
    .make_id = REFUSE(tn_comm_api, make_id, no_comm),
    .create = REFUSE(tn_comm_api, create, no_comm),
    .limits = REFUSE(tn_comm_api, limits, no_comm),
    .submit = REFUSE(tn_comm_api, submit, no_comm),
    .split = REFUSE(tn_comm_api, split, no_comm),
    .abort = REFUSE(tn_comm_api, abort, no_comm),
    .health = REFUSE(tn_comm_api, health, no_comm),
    .destroy = REFUSE(tn_comm_api, destroy, no_comm),
};

#undef REFUSE

}  // namespace tenon::plugin
