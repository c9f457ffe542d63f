/* SPDX-License-Identifier: Apache-2.0 */
/* minimal.h: the smallest plugin a host takes: one device that does nothing. Every specimen here is this one, broken in
 * one place. Invariant: what is not broken on purpose is right.
 */
#ifndef TENON_TEST_MINIMAL_H
#define TENON_TEST_MINIMAL_H

#include <tenon/abi.h>

#include <string.h>

static inline int32_t minimal_refuse(tn_error* error, const char* text) {
  if (error != NULL) {
    error->code = TN_UNSUPPORTED;
    strncpy(error->domain, "minimal", sizeof error->domain - 1);
    strncpy(error->message, text, sizeof error->message - 1);
    error->domain[sizeof error->domain - 1] = error->message[sizeof error->message - 1] = '\0';
  }
  return TN_UNSUPPORTED;
}

static inline int32_t minimal_count(const tn_plugin* plugin, uint32_t* count, tn_error* error) {
  (void)plugin, (void)error;
  *count = 1;
  return TN_OK;
}
static inline int32_t minimal_info(const tn_plugin* plugin, uint32_t ordinal, tn_device_info* info,
                                   tn_error* error) {
  (void)ordinal, (void)error;
  strncpy(info->name, plugin->name, sizeof info->name - 1);
  return TN_OK;
}
static inline int32_t minimal_open(const tn_plugin* plugin, uint32_t ordinal,
                                   const tn_device_options* options, tn_device** device, tn_error* error) {
  (void)plugin, (void)ordinal, (void)options;
  *device = NULL;
  return minimal_refuse(error, "this device is only for show");
}
static inline int32_t minimal_close(tn_device* device, tn_error* error) {
  (void)device;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_limits(tn_device* device, tn_device_limits* limits, tn_error* error) {
  (void)device, (void)limits;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_memory_info(tn_device* device, tn_memory_info* info, tn_error* error) {
  (void)device, (void)info;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment,
                                    tn_memory** memory, tn_error* error) {
  (void)device, (void)kind, (void)bytes, (void)alignment, (void)memory;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_free(tn_memory* memory, tn_error* error) {
  (void)memory;
  return minimal_refuse(error, "nothing is open");
}

static inline int32_t minimal_create(tn_device* device, const tn_stream_options* options, tn_stream** stream,
                                     tn_error* error) {
  (void)device, (void)options, (void)stream;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_destroy(tn_stream* stream, uint32_t mode, tn_error* error) {
  (void)stream, (void)mode;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_copy(tn_stream* stream, const tn_span* dst, const tn_span* src,
                                   tn_error* error) {
  (void)stream, (void)dst, (void)src;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t bytes,
                                   tn_error* error) {
  (void)stream, (void)dst, (void)pattern, (void)bytes;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_record(tn_stream* stream, uint32_t flags, uint64_t* value, tn_error* error) {
  (void)stream, (void)flags, (void)value;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_wait(tn_stream* stream, tn_stream* other, uint64_t value, tn_error* error) {
  (void)stream, (void)other, (void)value;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_query(tn_stream* stream, uint64_t* completed, tn_error* error) {
  (void)stream, (void)completed;
  return minimal_refuse(error, "nothing is open");
}
static inline int32_t minimal_sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, tn_error* error) {
  (void)stream, (void)value, (void)timeout_ns;
  return minimal_refuse(error, "nothing is open");
}

/* Tables as variables of each plugin, so that a specimen can spoil them before it hands them out. */
static tn_device_api minimal_device_api = {{sizeof(tn_device_api), TN_ABI_MAJOR, TN_ABI_MINOR},
                                           minimal_count,
                                           minimal_info,
                                           minimal_open,
                                           minimal_close,
                                           minimal_limits,
                                           minimal_memory_info,
                                           minimal_alloc,
                                           minimal_free,
                                           NULL,
                                           NULL};
static tn_stream_api minimal_stream_api = {{sizeof(tn_stream_api), TN_ABI_MAJOR, TN_ABI_MINOR},
                                           minimal_create,
                                           minimal_destroy,
                                           minimal_copy,
                                           NULL,
                                           minimal_fill,
                                           minimal_record,
                                           minimal_wait,
                                           minimal_query,
                                           minimal_sync,
                                           NULL,
                                           NULL,
                                           NULL,
                                           NULL};
static tn_plugin minimal_plugin = {{sizeof(tn_plugin), TN_ABI_MAJOR, TN_ABI_MINOR},
                                   "minimal",
                                   "Test",
                                   "1.0.0",
                                   0,
                                   NULL,
                                   &minimal_device_api,
                                   &minimal_stream_api,
                                   NULL,
                                   NULL,
                                   NULL,
                                   NULL,
                                   NULL};

/* Writes where no page is; not to address 0, which sanitizers turn into an ordinary end. */
static inline void minimal_crash(void) {
  static volatile int* volatile nowhere = (volatile int*)8;
  *nowhere = 1;
}

/* The right descriptor under this name. */
static inline tn_plugin* minimal_called(const char* name) {
  minimal_plugin.name = name;
  return &minimal_plugin;
}

#endif
