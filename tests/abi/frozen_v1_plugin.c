/* SPDX-License-Identifier: Apache-2.0 */
/* frozen_v1_plugin.c: a complete plugin written against ABI 1.0 as it was on its first day.
 *
 * Host memory, streams that complete at once, one kernel (op identity: a copy). It is compiled against the
 * headers in frozen/, which are never edited again. Until 1.0 is released the plugin is mended where it breaks what they
 * say; from then on it is not edited, either.
 * Invariant: every later host loads it and gets the same answers.
 */
#define _DEFAULT_SOURCE /* pthread_atfork's prototype under -std=c11 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "frozen_v1_fragment.h"

struct tn_device {
  atomic_uint children;
  _Atomic uint64_t used;
};
struct tn_memory {
  tn_device* device;
  unsigned char* bytes;
  uint64_t size;
};
struct tn_stream {
  tn_device* device;
  _Atomic uint64_t value;
};
struct tn_kernel {
  tn_device* device;
  uint64_t bytes;
  uint64_t alignments[2]; /* of x and y, as their tensors promise */
};

static int32_t fail(tn_error* error, int32_t code, const char* message) {
  if (error != NULL && error->size >= sizeof(tn_error)) {
    memset((char*)error + sizeof error->size, 0, sizeof *error - sizeof error->size);
    error->code = code;
    strncpy(error->domain, "frozen_v1", sizeof error->domain - 1);
    strncpy(error->message, message, sizeof error->message - 1);
  }
  return code;
}

static atomic_uint open_devices;
static int forked; /* set in the child of a fork, where only farewells are answered */

static void note_fork(void) { forked = 1; }

/* Whether a call may go on: its arguments are there, and this is the process that loaded the plugin. */
static int usable(int arguments, tn_error* error) {
  if (forked) return fail(error, TN_INVALID, "this process was forked after the plugin was loaded"), 0;
  if (!arguments) return fail(error, TN_INVALID, "an argument is NULL"), 0;
  return 1;
}

/* Whether nothing in a chain of links has to be understood: this plugin knows no extension. */
static int no_demands(const tn_link* link, tn_error* error) {
  if (understood(link)) return 1;
  return fail(error, TN_UNSUPPORTED, "an extension must be understood, and none is known"), 0;
}

/* Copies as much of a filled struct as the caller knows; both begin with their size. */
static void hand_over(void* out, const void* full, uint32_t full_size) {
  const uint32_t known = *(const uint32_t*)out < full_size ? *(const uint32_t*)out : full_size;
  if (known > sizeof(uint32_t))
    memcpy((char*)out + sizeof(uint32_t), (const char*)full + sizeof(uint32_t), known - sizeof(uint32_t));
}

/* Where a span's bytes are; NULL when it reaches outside its memory. */
static unsigned char* bytes_of(const tn_span* span) {
  static unsigned char nothing;
  if (span->bytes == 0) return &nothing;
  if (span->space == TN_SPACE_HOST_ADDRESS) return (unsigned char*)(uintptr_t)span->offset;
  if (span->space != TN_SPACE_MEMORY || span->memory == NULL) return NULL;
  if (span->offset > span->memory->size || span->bytes > span->memory->size - span->offset) return NULL;
  return span->memory->bytes + span->offset;
}

/* device */

static int32_t device_count(const tn_plugin* plugin, uint32_t* count, tn_error* error) {
  if (!usable(plugin != NULL && count != NULL, error)) return TN_INVALID;
  *count = 1;
  return TN_OK;
}

static int32_t device_info(const tn_plugin* plugin, uint32_t ordinal, tn_device_info* info, tn_error* error) {
  tn_device_info full = {sizeof full};
  if (!usable(plugin != NULL && info != NULL, error)) return TN_INVALID;
  if (ordinal != 0) return fail(error, TN_NOT_FOUND, "there is one device, number 0");
  full.kind = TN_DEVICE_OTHER;
  strcpy(full.name, "Frozen");
  strcpy(full.id, "frozen0");
  full.memory_bytes = 1u << 30;
  full.dlpack_type = 1;
  full.numa_node = -1;
  hand_over(info, &full, sizeof full);
  return TN_OK;
}

static int32_t device_open(const tn_plugin* plugin, uint32_t ordinal, const tn_device_options* options,
                           tn_device** device, tn_error* error) {
  if (!usable(plugin != NULL && device != NULL, error)) return TN_INVALID;
  *device = NULL;
  if (ordinal != 0) return fail(error, TN_NOT_FOUND, "there is one device, number 0");
  if (options != NULL && options->size >= sizeof *options && !no_demands(options->next, error))
    return TN_UNSUPPORTED;
  *device = calloc(1, sizeof **device);
  if (*device == NULL) return fail(error, TN_NO_MEMORY, "out of host memory");
  open_devices++;
  return TN_OK;
}

static int32_t device_close(tn_device* device, tn_error* error) {
  if (device == NULL) return fail(error, TN_INVALID, "device is NULL");
  if (device->children != 0) return fail(error, TN_BUSY, "something of the device lives: destroy it first");
  open_devices--;
  free(device);
  return TN_OK;
}

static int32_t device_limits(tn_device* device, tn_device_limits* limits, tn_error* error) {
  tn_device_limits full = {sizeof full};
  if (!usable(device != NULL && limits != NULL, error)) return TN_INVALID;
  full.alignment = TN_MEMORY_ALIGNMENT;
  full.priorities = 1;
  hand_over(limits, &full, sizeof full);
  return TN_OK;
}

static int32_t device_memory_info(tn_device* device, tn_memory_info* info, tn_error* error) {
  tn_memory_info full = {sizeof full};
  if (!usable(device != NULL && info != NULL, error)) return TN_INVALID;
  full.total_bytes = 1u << 30;
  full.used_here_bytes = device->used;
  full.free_bytes = full.total_bytes - full.used_here_bytes;
  hand_over(info, &full, sizeof full);
  return TN_OK;
}

static int32_t memory_alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment,
                            tn_memory** memory, tn_error* error) {
  const uint64_t unit = alignment > TN_MEMORY_ALIGNMENT ? alignment : TN_MEMORY_ALIGNMENT;
  if (!usable(device != NULL && memory != NULL, error)) return TN_INVALID;
  *memory = NULL;
  if ((alignment & (alignment - 1)) != 0) return fail(error, TN_INVALID, "the alignment is no power of two");
  if (kind > TN_MEMORY_HOST) return fail(error, TN_UNSUPPORTED, "only device and host memory");
  if (bytes > (1u << 30) - device->used)
    return fail(error, TN_NO_MEMORY, "there is 1 GiB, less what is in use");
  tn_memory* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(error, TN_NO_MEMORY, "out of host memory");
  made->bytes = aligned_alloc(unit, (bytes / unit + 1) * unit);
  if (made->bytes == NULL) {
    free(made);
    return fail(error, TN_NO_MEMORY, "out of host memory");
  }
  made->device = device;
  made->size = bytes;
  device->children++;
  device->used += bytes;
  *memory = made;
  return TN_OK;
}

static int32_t memory_free(tn_memory* memory, tn_error* error) {
  if (memory == NULL) return fail(error, TN_INVALID, "memory is NULL");
  memory->device->children--;
  memory->device->used -= memory->size;
  free(memory->bytes);
  free(memory);
  return TN_OK;
}

static int32_t memory_address(tn_memory* memory, uint64_t* address, tn_error* error) {
  if (!usable(memory != NULL && address != NULL, error)) return TN_INVALID;
  *address = (uint64_t)(uintptr_t)memory->bytes;
  return TN_OK;
}

/* stream: everything completes inside the call */

static int32_t stream_create(tn_device* device, const tn_stream_options* options, tn_stream** stream,
                             tn_error* error) {
  if (!usable(device != NULL && stream != NULL, error)) return TN_INVALID;
  *stream = NULL;
  if (options != NULL && options->size > sizeof(uint32_t) && options->priority != 0)
    return fail(error, TN_INVALID, "priority 0 is the only one");
  if (options != NULL && options->size >= sizeof *options && !no_demands(options->next, error))
    return TN_UNSUPPORTED;
  *stream = calloc(1, sizeof **stream);
  if (*stream == NULL) return fail(error, TN_NO_MEMORY, "out of host memory");
  (*stream)->device = device;
  device->children++;
  return TN_OK;
}

static int32_t stream_destroy(tn_stream* stream, uint32_t mode, tn_error* error) {
  (void)mode;
  if (stream == NULL) return fail(error, TN_INVALID, "stream is NULL");
  stream->device->children--;
  free(stream);
  return TN_OK;
}

static int32_t stream_copy(tn_stream* stream, const tn_span* dst, const tn_span* src, tn_error* error) {
  if (!usable(stream != NULL && dst != NULL && src != NULL, error)) return TN_INVALID;
  if (dst->bytes != src->bytes) return fail(error, TN_INVALID, "dst and src have different sizes");
  unsigned char *to = bytes_of(dst), *from = bytes_of(src);
  if (to == NULL || from == NULL) return fail(error, TN_INVALID, "a span reaches outside its memory");
  memcpy(to, from, dst->bytes);
  return TN_OK;
}

static int32_t stream_fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
                           tn_error* error) {
  if (!usable(stream != NULL && dst != NULL, error)) return TN_INVALID;
  if (pattern_bytes == 0 || pattern_bytes > 8 || (pattern_bytes & (pattern_bytes - 1)) != 0 ||
      dst->bytes % pattern_bytes != 0) {
    return fail(error, TN_INVALID, "a pattern has 1, 2, 4 or 8 bytes and divides the span");
  }
  unsigned char* to = bytes_of(dst);
  if (to == NULL) return fail(error, TN_INVALID, "the span reaches outside its memory");
  for (uint64_t i = 0; i < dst->bytes; ++i) to[i] = (unsigned char)(pattern >> (i % pattern_bytes * 8));
  return TN_OK;
}

static int32_t stream_record(tn_stream* stream, uint32_t flags, uint64_t* value, tn_error* error) {
  (void)flags;
  if (!usable(stream != NULL && value != NULL, error)) return TN_INVALID;
  *value = ++stream->value;
  return TN_OK;
}

static int32_t stream_wait(tn_stream* stream, tn_stream* other, uint64_t value, tn_error* error) {
  if (!usable(stream != NULL && other != NULL, error)) return TN_INVALID;
  return value <= other->value ? TN_OK : fail(error, TN_INVALID, "the value was never recorded");
}

static int32_t stream_query(tn_stream* stream, uint64_t* completed, tn_error* error) {
  if (!usable(stream != NULL && completed != NULL, error)) return TN_INVALID;
  *completed = stream->value;
  return TN_OK;
}

static int32_t stream_sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, tn_error* error) {
  (void)timeout_ns;
  return stream_wait(stream, stream, value, error);
}

/* kernel: y = x, dense, one node */

static const char malformed[] = "the fragment points to or names what is not there";
static const char refusal[] = "only one identity of dense f32";

static uint64_t alignment_of(const tn_tensor* t) {
  return t->alignment > sizeof(float) ? t->alignment : sizeof(float);
}

static int32_t kernel_supports(tn_device* device, const tn_fragment* fragment, tn_support* support,
                               tn_error* error) {
  tn_support full = {sizeof full};
  if (!usable(device != NULL && fragment != NULL && support != NULL, error)) return TN_INVALID;
  if (!is_fragment(fragment)) return fail(error, TN_INVALID, malformed);
  const tn_tensor *x = NULL, *y = NULL;
  full.verdict = is_identity(fragment, &x, &y) ? TN_SUPPORT_NATIVE : TN_SUPPORT_NO;
  if (full.verdict == TN_SUPPORT_NO) strcpy(full.reason, refusal);
  hand_over(support, &full, sizeof full);
  return TN_OK;
}

static int32_t kernel_compile(tn_device* device, const tn_fragment* fragment,
                              const tn_compile_options* options, tn_kernel** kernel, tn_error* error) {
  if (!usable(device != NULL && fragment != NULL && kernel != NULL, error)) return TN_INVALID;
  *kernel = NULL;
  if (!no_demands(fragment->size >= sizeof *fragment ? fragment->next : NULL, error)) return TN_UNSUPPORTED;
  if (options != NULL && options->size >= sizeof *options && !no_demands(options->next, error))
    return TN_UNSUPPORTED;
  if (!is_fragment(fragment)) return fail(error, TN_INVALID, malformed);
  const tn_tensor *x = NULL, *y = NULL;
  if (!is_identity(fragment, &x, &y)) return fail(error, TN_UNSUPPORTED, refusal);
  *kernel = calloc(1, sizeof **kernel);
  if (*kernel == NULL) return fail(error, TN_NO_MEMORY, "out of host memory");
  (*kernel)->device = device;
  (*kernel)->alignments[0] = alignment_of(x);
  (*kernel)->alignments[1] = alignment_of(y);
  (*kernel)->bytes = 4;
  for (uint32_t i = 0; i < x->rank; ++i) (*kernel)->bytes *= (uint64_t)x->dims[i];
  device->children++;
  return TN_OK;
}

static int32_t kernel_info(tn_kernel* kernel, tn_kernel_info* info, tn_error* error) {
  tn_kernel_info full = {sizeof full};
  if (!usable(kernel != NULL && info != NULL, error)) return TN_INVALID;
  full.workspace_alignment = TN_MEMORY_ALIGNMENT;
  strcpy(full.engine, "memcpy");
  hand_over(info, &full, sizeof full);
  return TN_OK;
}

/* Where a binding's bytes are; NULL where it lies in no memory, is too small, or off its tensor's alignment. */
static unsigned char* bound(const tn_span* span, uint64_t bytes, uint64_t alignment) {
  if (span->bytes < bytes || (span->bytes != 0 && span->space != TN_SPACE_MEMORY)) return NULL;
  unsigned char* const at = bytes_of(span);
  return bytes == 0 || (uintptr_t)at % alignment == 0 ? at : NULL;
}

static int32_t kernel_launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings,
                             uint32_t binding_count, const tn_span* workspace, tn_error* error) {
  (void)workspace;
  if (!usable(kernel != NULL && stream != NULL && bindings != NULL, error)) return TN_INVALID;
  if (binding_count != 2) return fail(error, TN_INVALID, "identity has two bindings");
  const unsigned char* from = bound(&bindings[0], kernel->bytes, kernel->alignments[0]);
  unsigned char* to = bound(&bindings[1], kernel->bytes, kernel->alignments[1]);
  if (from == NULL || to == NULL)
    return fail(error, TN_INVALID, "a binding is too small, outside of its memory, or off its alignment");
  memmove(to, from, kernel->bytes);
  return TN_OK;
}

static int32_t kernel_destroy(tn_kernel* kernel, tn_error* error) {
  if (kernel == NULL) return fail(error, TN_INVALID, "kernel is NULL");
  kernel->device->children--;
  free(kernel);
  return TN_OK;
}

/* plugin */

static const void* no_extension(const tn_plugin* plugin, const char* id) {
  (void)plugin, (void)id;
  return NULL;
}

static int32_t quiesce(const tn_plugin* plugin, tn_error* error) {
  return usable(plugin != NULL, error) ? TN_OK : TN_INVALID; /* no thread, no work in flight */
}

static int32_t shut_down(const tn_plugin* plugin, tn_error* error) {
  if (plugin == NULL) return fail(error, TN_INVALID, "plugin is NULL");
  return open_devices == 0 ? TN_OK : fail(error, TN_BUSY, "a device is open: close it first");
}

static const tn_device_api device_api = {
    .header = {sizeof(tn_device_api), 1, 0},
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .limits = device_limits,
    .memory_info = device_memory_info,
    .alloc = memory_alloc,
    .free = memory_free,
    .address = memory_address,
};

static const tn_stream_api stream_api = {
    .header = {sizeof(tn_stream_api), 1, 0},
    .create = stream_create,
    .destroy = stream_destroy,
    .copy = stream_copy,
    .fill = stream_fill,
    .record = stream_record,
    .wait = stream_wait,
    .query = stream_query,
    .sync = stream_sync,
};

static const tn_kernel_api kernel_api = {
    .header = {sizeof(tn_kernel_api), 1, 0},
    .supports = kernel_supports,
    .compile = kernel_compile,
    .info = kernel_info,
    .launch = kernel_launch,
    .destroy = kernel_destroy,
};

static const tn_plugin plugin_v1 = {
    .header = {sizeof(tn_plugin), 1, 0},
    .name = "frozen_v1",
    .vendor = "Tenon",
    .version = "1.0.0",
    .features = TN_FEATURE_SYNCHRONOUS | TN_FEATURE_HOST_MEMORY,
    .device = &device_api,
    .stream = &stream_api,
    .kernel = &kernel_api,
    .extension = no_extension,
    .quiesce = quiesce,
    .shutdown = shut_down,
};

const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  if (host == NULL || host->header.size < offsetof(tn_host, context)) {
    fail(error, TN_INVALID, "host is NULL or its size was not set");
    return NULL;
  }
  if (host->min_major > 1 || (host->min_major == 1 && host->min_minor > 0) || host->header.major < 1) {
    fail(error, TN_VERSION, "plugin 'frozen_v1' speaks ABI 1.0 only");
    return NULL;
  }
  static atomic_flag watching = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&watching)) pthread_atfork(NULL, NULL, note_fork);
  return forked ? (fail(error, TN_INVALID, "this process was forked"), NULL) : &plugin_v1;
}
