/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: devices and their memory.
 *
 * Every call names its device or memory; nothing is "current". A tn_memory is a handle; spans add an offset, and a raw
 * address exists only where the device has one (feature ADDRESSABLE).
 */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of memory. */
#define TN_MEMORY_DEVICE 0u
#define TN_MEMORY_HOST 1u    /* pinned: `address` gives a host address, copies from it are asynchronous */
#define TN_MEMORY_MANAGED 2u /* optional: one address for host and device */

/* Kinds of device. */
#define TN_DEVICE_CPU 0u
#define TN_DEVICE_GPU 1u
#define TN_DEVICE_NPU 2u
#define TN_DEVICE_OTHER 3u

/* Smallest alignment that every `alloc` grants. */
#define TN_MEMORY_ALIGNMENT 256u

/* What can be known without opening the device. */
typedef struct tn_device_info {
  uint32_t size;
  uint32_t kind;   /* TN_DEVICE_… */
  char name[96];   /* "NVIDIA H200" */
  char id[64];     /* stable on this machine: a PCI address, "numa0" */
  char driver[64]; /* the driver's own version text; empty when there is none */
  uint64_t memory_bytes;
  int32_t dlpack_type;    /* DLDeviceType */
  int32_t numa_node;      /* -1: unknown */
  uint32_t compute_units; /* cores, SMs, clusters */
  uint32_t reserved;
} tn_device_info;

/* What an open device promises. A zero count means "no limit of its own". */
typedef struct tn_device_limits {
  uint32_t size;
  uint32_t preferences; /* TN_PREFERS_…, where a host may choose; bits that it does not know change nothing */
  uint64_t alignment;   /* granted by every alloc, ≥ TN_MEMORY_ALIGNMENT */
  uint64_t max_alloc_bytes;
  uint32_t max_streams;
  uint32_t max_pending_records; /* values recorded and not yet reached */
  uint32_t max_bindings;        /* inputs + outputs of one fragment */
  uint32_t priorities;          /* stream priorities 0 … priorities-1, 0 the least urgent; at least 1 */
  double copy_bytes_per_second; /* measured or published; 0: unknown */
  double launch_ns;             /* cost of one empty launch; 0: unknown */
} tn_device_limits;
#define TN_PREFERS_CHANNELS_LAST_F32 1u  /* convolutions of f32 are quickest where images lie as NHWC */
#define TN_PREFERS_CHANNELS_LAST_HALF 2u /* those of f16 and bf16 */
#define TN_PREFERS_FILTERS_DENSE 4u      /* their filters stay as [O, C, R, S] then, else they go along */

typedef struct tn_memory_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t total_bytes;
  uint64_t free_bytes;
  uint64_t used_here_bytes; /* by this process through this device */
} tn_memory_info;

typedef struct tn_device_options {
  uint32_t size;
  uint32_t reserved;
  const tn_link* next;
} tn_device_options;

struct tn_device_api {
  tn_header header;
  /* Stores the number of devices. Zero devices is TN_OK; when a driver is missing, an error may say which.
   * [any-thread; may block; may fail] */
  int32_t (*count)(const tn_plugin* plugin, uint32_t* count, tn_error* error);
  /* Describes device `ordinal` without opening it; fills at most info->size bytes.
   * TN_NOT_FOUND. [any-thread; may block; may fail] */
  int32_t (*info)(const tn_plugin* plugin, uint32_t ordinal, tn_device_info* info, tn_error* error);
  /* Opens a device; opening one twice gives two handles. Ended by `close`.
   * TN_NOT_FOUND, TN_BUSY (exclusive elsewhere), TN_DEVICE_LOST. [any-thread; may block; may fail] */
  int32_t (*open)(const tn_plugin* plugin, uint32_t ordinal, const tn_device_options* options,
                  tn_device** device, tn_error* error);
  /* Closes a device. TN_BUSY while a memory, stream, kernel or communicator or capture of it lives; the handle stays good then.
   * [any-thread; may block; may fail] */
  int32_t (*close)(tn_device* device, tn_error* error);
  /* Fills at most limits->size bytes. [any-thread; does not block; may fail] */
  int32_t (*limits)(tn_device* device, tn_device_limits* limits, tn_error* error);
  /* Fills at most info->size bytes. [any-thread; may block; may fail] */
  int32_t (*memory_info)(tn_device* device, tn_memory_info* info, tn_error* error);

  /* Allocates. `alignment` is 0 or a power of two; at least limits.alignment is granted. Zero bytes give a valid memory
   * of no bytes. TN_NO_MEMORY with the figures, TN_UNSUPPORTED for a kind. [any-thread; may block; may fail] */
  int32_t (*alloc)(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** memory,
                   tn_error* error);
  /* Frees at once. Work in flight on it is the caller's error. [any-thread; may block; may fail] */
  int32_t (*free)(tn_memory* memory, tn_error* error);
  /* (optional) The address of byte 0: on the host for HOST and MANAGED, on the device (feature ADDRESSABLE) for DEVICE.
   * NULL: TN_UNSUPPORTED. [any-thread; does not block; may fail] */
  int32_t (*address)(tn_memory* memory, uint64_t* address, tn_error* error);
  /* (optional) Stores 1 when `a` copies from `b`'s memory directly. NULL: 0, the core stages.
   * [any-thread; may block; may fail] */
  int32_t (*peer)(tn_device* a, tn_device* b, uint32_t* direct, tn_error* error);
};

#ifdef __cplusplus
}
#endif
#endif
