/* SPDX-License-Identifier: Apache-2.0 */
/* ipc.h: extension "tn.ipc/1": one process's memory, opened by another on the same machine.
 *
 * The exporter keeps the memory alive while anyone has it open; tickets are plain bytes to be carried by the host.
 */
#ifndef TENON_EXT_IPC_H
#define TENON_EXT_IPC_H

#include <tenon/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_IPC_ID "tn.ipc/1"

typedef struct tn_ipc_api {
  tn_header header;
  /* Stores the size of a ticket in bytes. [any-thread; does not block; may fail] */
  int32_t (*ticket_bytes)(tn_device* device, uint64_t* bytes, tn_error* error);
  /* Writes a ticket for `memory`. TN_UNSUPPORTED for memory that cannot be shared.
   * [any-thread; may block; may fail] */
  int32_t (*export_memory)(tn_memory* memory, void* ticket, uint64_t bytes, tn_error* error);
  /* Opens a ticket of another process; ended by device.free. TN_NOT_FOUND when the exporter is gone.
   * [any-thread; may block; may fail] */
  int32_t (*open_memory)(tn_device* device, const void* ticket, uint64_t bytes, tn_memory** memory,
                         tn_error* error);
} tn_ipc_api;

#ifdef __cplusplus
}
#endif
#endif
