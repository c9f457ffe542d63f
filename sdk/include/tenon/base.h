/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: what every other header of the contract stands on: version, codes, errors, links, spans.
 *
 * The rules of the whole contract, stated once:
 *   - C11 and C++20, standard headers only; no enum, bool or bit-field inside a struct, padding is explicit.
 *   - A function that can fail returns int32_t (a TN_ code) and takes `tn_error*` last: caller-owned, may be NULL,
 *     untouched on TN_OK.
 *   - Single structs and tables begin with their size. A reader uses only members inside the other side's size; what
 *     lies outside reads as zero. They grow at the end only.
 *   - Array elements (tn_span, tn_tensor, tn_attribute, tn_node, tn_alias, tn_pattern, tn_pattern_step,
 *     tn_comm_op) are frozen for the major version, and so are tn_link, tn_string_list, tn_pattern_list, which do
 *     not begin with a size.
 *   - The last comment line of each function is its contract: [who may call; may block?; may fail?].
 */
#ifndef TENON_BASE_H
#define TENON_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI this SDK describes. A plugin built here runs under every host whose range contains it. */
#define TN_ABI_MAJOR 1
#define TN_ABI_MINOR 0

#if defined(_WIN32)
#define TN_EXPORT __declspec(dllexport)
#else
#define TN_EXPORT __attribute__((visibility("default")))
#endif

/* Result codes. Numbers never change meaning; an unknown code reads as TN_INTERNAL. */
#define TN_OK 0
#define TN_INVALID 1     /* the caller's mistake: a bad argument, handle, value or order of calls */
#define TN_UNSUPPORTED 2 /* permanent for this device: the message says why */
#define TN_NO_MEMORY 3   /* device or host memory; freeing some may help */
#define TN_NOT_FOUND 4   /* a device, file, extension or key does not exist */
#define TN_TIMEOUT 5     /* the deadline passed; nothing is poisoned, the call may be repeated */
#define TN_BUSY 6        /* in use now; the call may be repeated */
#define TN_ABORTED 7     /* someone aborted the communicator or stream */
#define TN_DEVICE_LOST 8 /* only destroy and free are legal on this device now */
#define TN_PEER_LOST 9   /* a rank of the communicator is gone */
#define TN_MISMATCH 10   /* two sides disagree: ranks on an operation, a saved kernel with this driver */
#define TN_VERSION 11    /* ABI versions have no overlap */
#define TN_INTERNAL 12   /* a defect of the plugin or the host */
#define TN_CODE_COUNT 13

/* tn_error.flags */
#define TN_ERROR_ASYNC 1u /* an earlier, asynchronous operation failed; this call only brought the news */

/* First member of every table. `size` counts the bytes the writer knows of, itself included. */
typedef struct tn_header {
  uint32_t size;
  uint16_t major, minor;
} tn_header;

/* The story of a failure. The message names the object, the value and the remedy; native codes survive. */
typedef struct tn_error {
  uint32_t size;
  int32_t code;
  int64_t native_code; /* the runtime's own code, 0 when there is none */
  uint32_t flags;
  char domain[20];   /* who is speaking: a plugin's name, "cuda", "nccl", "errno"; NUL-terminated */
  char message[480]; /* UTF-8, NUL-terminated */
} tn_error;

/* One optional addition to a create call or an array element, found by id ("vendor.thing/1"). */
typedef struct tn_link {
  const struct tn_link* next;
  const char* id;
  uint32_t size;  /* of the struct this link heads */
  uint32_t flags; /* TN_LINK_MUST_UNDERSTAND: a reader that does not know the id fails with TN_UNSUPPORTED */
} tn_link;
#define TN_LINK_MUST_UNDERSTAND 1u

/* Handles belong to the plugin. Each is destroyed once, by the function named beside its maker. */
typedef struct tn_device tn_device;
typedef struct tn_memory tn_memory;
typedef struct tn_stream tn_stream;
typedef struct tn_kernel tn_kernel;
typedef struct tn_comm tn_comm;

/* Where the bytes of a span live. */
#define TN_SPACE_MEMORY 0u         /* `memory` + `offset` */
#define TN_SPACE_DEVICE_ADDRESS 1u /* `offset` is an address on the device; feature ADDRESSABLE */
#define TN_SPACE_HOST_ADDRESS 2u   /* `offset` is an address in this process; legal in every copy */

/* A range of bytes. Zero bytes are legal everywhere, with any handle or address. Array element: frozen. */
typedef struct tn_span {
  tn_memory* memory;
  uint64_t offset;
  uint64_t bytes;
  uint32_t space;
  uint32_t reserved; /* zero */
} tn_span;

/* A list that a plugin owns and keeps for the plugin's life. Frozen: it has no size. */
typedef struct tn_string_list {
  const char* const* items;
  uint64_t count;
} tn_string_list;

#ifdef __cplusplus
}
#endif
#endif
