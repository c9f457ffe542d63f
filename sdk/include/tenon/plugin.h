/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h: the one exported symbol and the descriptor behind it.
 *
 * Opening a plugin has no side effect: no driver starts, no thread runs, no file is written before devices are counted or
 * opened.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <tenon/base.h>
#include <tenon/host.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_device_api tn_device_api; /* device.h, required */
typedef struct tn_stream_api tn_stream_api; /* stream.h, required */
typedef struct tn_kernel_api tn_kernel_api; /* kernel.h, NULL: memory and copies only */
typedef struct tn_comm_api tn_comm_api;     /* comm.h, NULL: the core's host-staged communicator serves */

/* tn_plugin.features: a bit whose loss would change meaning. An unknown bit is ignored by the host. */
#define TN_FEATURE_ADDRESSABLE (1ull << 0) /* spans may name device addresses; frameworks bring memory */
#define TN_FEATURE_CROSS_DEVICE_WAIT (1ull << 1) /* `wait` takes a stream of another device of this plugin */
#define TN_FEATURE_FRAGMENT_COLLECTIVES (1ull << 2) /* collectives may be nodes of a fragment */
#define TN_FEATURE_SYNCHRONOUS (1ull << 3)          /* no native streams: work completes inside the call */
#define TN_FEATURE_WHOLE_GRAPH (1ull << 4) /* fragments must be whole graphs; single ops are refused */
#define TN_FEATURE_UNLOADABLE (1ull << 5)  /* dlclose after shutdown is safe (and tested) */
#define TN_FEATURE_HOST_MEMORY (1ull << 6) /* device memory is host memory: addresses work on both sides */

typedef struct tn_plugin tn_plugin;
struct tn_plugin {
  tn_header header; /* the ABI version this descriptor was written for */
  const char* name; /* "cpu"; equals the manifest's name */
  const char* vendor;
  const char* version; /* of the plugin, SemVer */
  uint64_t features;
  void* context; /* the plugin's own */
  const tn_device_api* device;
  const tn_stream_api* stream;
  const tn_kernel_api* kernel;
  const tn_comm_api* comm;
  /* The table of extension `id` ("tn.capture/1"), which begins with a tn_header, or NULL. Unknown ids are NULL.
   * [any-thread; does not block; returns NULL] */
  const void* (*extension)(const tn_plugin* plugin, const char* id);
  /* Finishes all work and stops the plugin's threads; they restart when needed. [any-thread; blocks; may fail] */
  int32_t (*quiesce)(const tn_plugin* plugin, tn_error* error);
  /* The last call. TN_BUSY while any handle lives. Exit without it is legal. [one thread; blocks; may fail] */
  int32_t (*shutdown)(const tn_plugin* plugin, tn_error* error);
};

/* The only symbol a plugin exports. Returns a descriptor, which lives until shutdown, for one version inside the host's
 * range; or NULL with the reason in `error` (TN_VERSION when the ranges do not meet). A second call returns the same
 * descriptor. [one thread at a time; does not block; returns NULL] */
TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error);
typedef const tn_plugin* (*tn_plugin_entry_fn)(const tn_host* host, tn_error* error);
#define TN_PLUGIN_ENTRY_NAME "tn_plugin_entry"

#ifdef __cplusplus
}
#endif
#endif
