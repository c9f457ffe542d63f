/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h: extension "tn.capture/1": record a stream's work once, replay it as one operation.
 *
 * Values recorded during a capture are local to it: while it goes on `query` tells less, and `sync` for them is TN_INVALID.
 * Streams that join (by waiting for a captured value) rejoin the first stream before `end`. Memory, workspace and kernels
 * used inside stay alive and in place for the capture's life. Memory may be allocated and freed while a stream captures.
 */
#ifndef TENON_EXT_CAPTURE_H
#define TENON_EXT_CAPTURE_H

#include <tenon/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_CAPTURE_ID "tn.capture/1"

typedef struct tn_capture tn_capture;

typedef struct tn_capture_api {
  tn_header header;
  /* Work on `stream` is collected instead of run. TN_BUSY when it is capturing already.
   * [stream's thread; does not block; may fail] */
  int32_t (*begin)(tn_stream* stream, tn_error* error);
  /* Ends the collection. TN_INVALID when a forked stream has not rejoined, or work was not capturable; the stream is
   * usable again either way. Ended by `destroy`. [stream's thread; may block; may fail] */
  int32_t (*end)(tn_stream* stream, tn_capture** capture, tn_error* error);
  /* Enqueues the whole as one operation, on any stream of the device it was captured on; what it reads is what is there when
   * it runs. TN_INVALID for a stream of another device. [stream's thread; does not block; may fail] */
  int32_t (*replay)(tn_capture* capture, tn_stream* stream, tn_error* error);
  /* Destroys; replays in flight finish first. [any-thread; may block; may fail] */
  int32_t (*destroy)(tn_capture* capture, tn_error* error);
} tn_capture_api;

#ifdef __cplusplus
}
#endif
#endif
