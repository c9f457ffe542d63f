/* SPDX-License-Identifier: Apache-2.0 */
/* import.h: extension "tn.import/1": a framework's own streams and memory, borrowed without ownership.
 *
 * An imported handle is ended by the ordinary destroy or free, which leaves the native object alone. `record` on an
 * imported stream covers all native work enqueued before the call.
 */
#ifndef TENON_EXT_IMPORT_H
#define TENON_EXT_IMPORT_H

#include <tenon/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_IMPORT_ID "tn.import/1"

typedef struct tn_import_api {
  tn_header header;
  /* Wraps the native stream (a CUstream, a pointer in an integer). [any-thread; may block; may fail] */
  int32_t (*stream)(tn_device* device, uint64_t native, tn_stream** stream, tn_error* error);
  /* Wraps `bytes` at a native address. TN_INVALID when the device cannot reach it.
   * [any-thread; may block; may fail] */
  int32_t (*memory)(tn_device* device, uint64_t address, uint64_t bytes, tn_memory** memory, tn_error* error);
  /* The native handle behind any stream of this plugin. [any-thread; does not block; may fail] */
  int32_t (*native)(tn_stream* stream, uint64_t* native, tn_error* error);
} tn_import_api;

#ifdef __cplusplus
}
#endif
#endif
