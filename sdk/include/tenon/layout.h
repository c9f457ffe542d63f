/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: the size of every struct of the contract and the place of every member, held by the compiler.
 *
 * Include it anywhere: it declares nothing. Numbers hold for 64-bit machines, the only ones supported.
 * Invariant: a line here never changes within a major version. A table or struct that grows gets its new
 * members at the end and its new size; an array element keeps its size.
 */
#ifndef TENON_LAYOUT_H
#define TENON_LAYOUT_H

#include <tenon/abi.h>

#ifdef __cplusplus
#define TN_ASSERT_LAYOUT(condition, words) static_assert(condition, words);
#else
#define TN_ASSERT_LAYOUT(condition, words) _Static_assert(condition, words);
#endif
#define TN_SIZE(type, bytes) TN_ASSERT_LAYOUT(sizeof(type) == bytes, "sizeof(" #type ") is " #bytes)
#define TN_AT(type, member, bytes) \
  TN_ASSERT_LAYOUT(offsetof(type, member) == bytes, "offsetof(" #type ", " #member ") is " #bytes)

TN_ASSERT_LAYOUT(sizeof(void*) == 8, "the contract is laid out for 64-bit machines")

/* clang-format off */

/* base.h */
TN_SIZE(tn_header, 8)
  TN_AT(tn_header, size, 0) TN_AT(tn_header, major, 4) TN_AT(tn_header, minor, 6)
TN_SIZE(tn_error, 520)
  TN_AT(tn_error, size, 0) TN_AT(tn_error, code, 4) TN_AT(tn_error, native_code, 8)
  TN_AT(tn_error, flags, 16) TN_AT(tn_error, domain, 20) TN_AT(tn_error, message, 40)
TN_SIZE(tn_link, 24)
  TN_AT(tn_link, next, 0) TN_AT(tn_link, id, 8) TN_AT(tn_link, size, 16) TN_AT(tn_link, flags, 20)
TN_SIZE(tn_span, 32) /* array element: frozen */
  TN_AT(tn_span, memory, 0) TN_AT(tn_span, offset, 8) TN_AT(tn_span, bytes, 16) TN_AT(tn_span, space, 24)
  TN_AT(tn_span, reserved, 28)
TN_SIZE(tn_string_list, 16)
  TN_AT(tn_string_list, items, 0) TN_AT(tn_string_list, count, 8)

/* host.h */
TN_SIZE(tn_store, 32)
  TN_AT(tn_store, header, 0) TN_AT(tn_store, context, 8) TN_AT(tn_store, set, 16) TN_AT(tn_store, get, 24)
TN_SIZE(tn_host, 88)
  TN_AT(tn_host, header, 0) TN_AT(tn_host, min_major, 8) TN_AT(tn_host, min_minor, 10)
  TN_AT(tn_host, reserved, 12) TN_AT(tn_host, context, 16) TN_AT(tn_host, name, 24) TN_AT(tn_host, log, 32)
  TN_AT(tn_host, log_level, 40) TN_AT(tn_host, allocate, 48) TN_AT(tn_host, release, 56)
  TN_AT(tn_host, option, 64) TN_AT(tn_host, trace, 72) TN_AT(tn_host, parallel_for, 80)

/* plugin.h */
TN_SIZE(tn_plugin, 104)
  TN_AT(tn_plugin, header, 0) TN_AT(tn_plugin, name, 8) TN_AT(tn_plugin, vendor, 16)
  TN_AT(tn_plugin, version, 24) TN_AT(tn_plugin, features, 32) TN_AT(tn_plugin, context, 40)
  TN_AT(tn_plugin, device, 48) TN_AT(tn_plugin, stream, 56) TN_AT(tn_plugin, kernel, 64)
  TN_AT(tn_plugin, comm, 72) TN_AT(tn_plugin, extension, 80) TN_AT(tn_plugin, quiesce, 88)
  TN_AT(tn_plugin, shutdown, 96)

/* device.h */
TN_SIZE(tn_device_info, 256)
  TN_AT(tn_device_info, size, 0) TN_AT(tn_device_info, kind, 4) TN_AT(tn_device_info, name, 8)
  TN_AT(tn_device_info, id, 104) TN_AT(tn_device_info, driver, 168) TN_AT(tn_device_info, memory_bytes, 232)
  TN_AT(tn_device_info, dlpack_type, 240) TN_AT(tn_device_info, numa_node, 244)
  TN_AT(tn_device_info, compute_units, 248) TN_AT(tn_device_info, reserved, 252)
TN_SIZE(tn_device_limits, 56)
  TN_AT(tn_device_limits, size, 0) TN_AT(tn_device_limits, preferences, 4)
  TN_AT(tn_device_limits, alignment, 8) TN_AT(tn_device_limits, max_alloc_bytes, 16)
  TN_AT(tn_device_limits, max_streams, 24) TN_AT(tn_device_limits, max_pending_records, 28)
  TN_AT(tn_device_limits, max_bindings, 32) TN_AT(tn_device_limits, priorities, 36)
  TN_AT(tn_device_limits, copy_bytes_per_second, 40) TN_AT(tn_device_limits, launch_ns, 48)
TN_SIZE(tn_memory_info, 32)
  TN_AT(tn_memory_info, size, 0) TN_AT(tn_memory_info, reserved, 4) TN_AT(tn_memory_info, total_bytes, 8)
  TN_AT(tn_memory_info, free_bytes, 16) TN_AT(tn_memory_info, used_here_bytes, 24)
TN_SIZE(tn_device_options, 16)
  TN_AT(tn_device_options, size, 0) TN_AT(tn_device_options, reserved, 4) TN_AT(tn_device_options, next, 8)
TN_SIZE(tn_device_api, 88)
  TN_AT(tn_device_api, header, 0) TN_AT(tn_device_api, count, 8) TN_AT(tn_device_api, info, 16)
  TN_AT(tn_device_api, open, 24) TN_AT(tn_device_api, close, 32) TN_AT(tn_device_api, limits, 40)
  TN_AT(tn_device_api, memory_info, 48) TN_AT(tn_device_api, alloc, 56) TN_AT(tn_device_api, free, 64)
  TN_AT(tn_device_api, address, 72) TN_AT(tn_device_api, peer, 80)

/* stream.h */
TN_SIZE(tn_stream_options, 24)
  TN_AT(tn_stream_options, size, 0) TN_AT(tn_stream_options, priority, 4) TN_AT(tn_stream_options, name, 8)
  TN_AT(tn_stream_options, next, 16)
TN_SIZE(tn_copy_shape, 104)
  TN_AT(tn_copy_shape, size, 0) TN_AT(tn_copy_shape, rank, 4) TN_AT(tn_copy_shape, extent, 8)
  TN_AT(tn_copy_shape, dst_stride, 40) TN_AT(tn_copy_shape, src_stride, 72)
TN_SIZE(tn_stream_api, 112)
  TN_AT(tn_stream_api, header, 0) TN_AT(tn_stream_api, create, 8) TN_AT(tn_stream_api, destroy, 16)
  TN_AT(tn_stream_api, copy, 24) TN_AT(tn_stream_api, copy_strided, 32) TN_AT(tn_stream_api, fill, 40)
  TN_AT(tn_stream_api, record, 48) TN_AT(tn_stream_api, wait, 56) TN_AT(tn_stream_api, query, 64)
  TN_AT(tn_stream_api, sync, 72) TN_AT(tn_stream_api, timestamp, 80) TN_AT(tn_stream_api, host_call, 88)
  TN_AT(tn_stream_api, promise, 96) TN_AT(tn_stream_api, signal, 104)

/* fragment.h */
TN_SIZE(tn_tensor, 80) /* array element: frozen */
  TN_AT(tn_tensor, dtype, 0) TN_AT(tn_tensor, rank, 4) TN_AT(tn_tensor, dims, 8)
  TN_AT(tn_tensor, strides, 16) TN_AT(tn_tensor, layout, 24) TN_AT(tn_tensor, flags, 28)
  TN_AT(tn_tensor, alignment, 32) TN_AT(tn_tensor, constant, 40) TN_AT(tn_tensor, constant_bytes, 48)
  TN_AT(tn_tensor, next, 56) TN_AT(tn_tensor, reserved, 64)
TN_SIZE(tn_attribute, 48) /* array element: frozen */
  TN_AT(tn_attribute, name, 0) TN_AT(tn_attribute, kind, 8) TN_AT(tn_attribute, reserved, 12)
  TN_AT(tn_attribute, count, 16) TN_AT(tn_attribute, i64, 24) TN_AT(tn_attribute, f64, 32)
  TN_AT(tn_attribute, data, 40)
TN_SIZE(tn_node, 80) /* array element: frozen */
  TN_AT(tn_node, op, 0) TN_AT(tn_node, version, 4) TN_AT(tn_node, input_count, 8)
  TN_AT(tn_node, output_count, 12) TN_AT(tn_node, attribute_count, 16) TN_AT(tn_node, reserved, 20)
  TN_AT(tn_node, inputs, 24) TN_AT(tn_node, outputs, 32) TN_AT(tn_node, attributes, 40)
  TN_AT(tn_node, name, 48) TN_AT(tn_node, next, 56) TN_AT(tn_node, reserved2, 64)
TN_SIZE(tn_alias, 8) /* array element: frozen */
  TN_AT(tn_alias, input, 0) TN_AT(tn_alias, output, 4)
TN_SIZE(tn_fragment, 120)
  TN_AT(tn_fragment, size, 0) TN_AT(tn_fragment, flags, 4) TN_AT(tn_fragment, tensors, 8)
  TN_AT(tn_fragment, nodes, 16) TN_AT(tn_fragment, inputs, 24) TN_AT(tn_fragment, outputs, 32)
  TN_AT(tn_fragment, aliases, 40) TN_AT(tn_fragment, tensor_count, 48) TN_AT(tn_fragment, node_count, 52)
  TN_AT(tn_fragment, input_count, 56) TN_AT(tn_fragment, output_count, 60)
  TN_AT(tn_fragment, alias_count, 64) TN_AT(tn_fragment, reserved, 68) TN_AT(tn_fragment, name, 72)
  TN_AT(tn_fragment, identity, 80) TN_AT(tn_fragment, next, 112)

/* kernel.h */
TN_SIZE(tn_support, 272)
  TN_AT(tn_support, size, 0) TN_AT(tn_support, verdict, 4) TN_AT(tn_support, cost_ns, 8)
  TN_AT(tn_support, workspace_bytes, 16) TN_AT(tn_support, alias_mask, 24) TN_AT(tn_support, reason, 32)
  TN_AT(tn_support, aliases_beyond, 264)
TN_SIZE(tn_compile_options, 40)
  TN_AT(tn_compile_options, size, 0) TN_AT(tn_compile_options, comm_count, 4)
  TN_AT(tn_compile_options, budget_ms, 8) TN_AT(tn_compile_options, workspace_limit, 16)
  TN_AT(tn_compile_options, comms, 24) TN_AT(tn_compile_options, next, 32)
TN_SIZE(tn_kernel_info, 96)
  TN_AT(tn_kernel_info, size, 0) TN_AT(tn_kernel_info, reserved, 4)
  TN_AT(tn_kernel_info, workspace_bytes, 8) TN_AT(tn_kernel_info, workspace_alignment, 16)
  TN_AT(tn_kernel_info, cost_ns, 24) TN_AT(tn_kernel_info, engine, 32)
TN_SIZE(tn_pattern_step, 32) /* array element: frozen */
  TN_AT(tn_pattern_step, ops, 0) TN_AT(tn_pattern_step, op_count, 8)
  TN_AT(tn_pattern_step, operand_count, 12) TN_AT(tn_pattern_step, operands, 16)
  TN_AT(tn_pattern_step, flags, 24) TN_AT(tn_pattern_step, reserved, 28)
TN_SIZE(tn_pattern, 24) /* array element: frozen */
  TN_AT(tn_pattern, name, 0) TN_AT(tn_pattern, steps, 8) TN_AT(tn_pattern, step_count, 16)
  TN_AT(tn_pattern, reserved, 20)
TN_SIZE(tn_pattern_list, 16)
  TN_AT(tn_pattern_list, items, 0) TN_AT(tn_pattern_list, count, 8)
TN_SIZE(tn_kernel_api, 88)
  TN_AT(tn_kernel_api, header, 0) TN_AT(tn_kernel_api, supports, 8) TN_AT(tn_kernel_api, patterns, 16)
  TN_AT(tn_kernel_api, layouts, 24) TN_AT(tn_kernel_api, layout_bytes, 32) TN_AT(tn_kernel_api, compile, 40)
  TN_AT(tn_kernel_api, info, 48) TN_AT(tn_kernel_api, launch, 56) TN_AT(tn_kernel_api, destroy, 64)
  TN_AT(tn_kernel_api, save, 72) TN_AT(tn_kernel_api, load, 80)

/* comm.h */
TN_SIZE(tn_comm_op, 168) /* array element: frozen */
  TN_AT(tn_comm_op, kind, 0) TN_AT(tn_comm_op, dtype, 4) TN_AT(tn_comm_op, reduce, 8)
  TN_AT(tn_comm_op, peer, 12) TN_AT(tn_comm_op, count, 16) TN_AT(tn_comm_op, send, 24)
  TN_AT(tn_comm_op, recv, 56) TN_AT(tn_comm_op, scalar, 88) TN_AT(tn_comm_op, factor, 96)
  TN_AT(tn_comm_op, send_counts, 128) TN_AT(tn_comm_op, recv_counts, 136) TN_AT(tn_comm_op, next, 144)
  TN_AT(tn_comm_op, reserved, 152)
TN_SIZE(tn_comm_options, 40)
  TN_AT(tn_comm_options, size, 0) TN_AT(tn_comm_options, flags, 4) TN_AT(tn_comm_options, timeout_ns, 8)
  TN_AT(tn_comm_options, store, 16) TN_AT(tn_comm_options, name, 24) TN_AT(tn_comm_options, next, 32)
TN_SIZE(tn_comm_limits, 40)
  TN_AT(tn_comm_limits, size, 0) TN_AT(tn_comm_limits, max_ops, 4) TN_AT(tn_comm_limits, kind_mask, 8)
  TN_AT(tn_comm_limits, reduce_mask, 16) TN_AT(tn_comm_limits, dtype_mask, 24)
  TN_AT(tn_comm_limits, reducible_mask, 32)
TN_SIZE(tn_comm_api, 80)
  TN_AT(tn_comm_api, header, 0) TN_AT(tn_comm_api, id_bytes, 8) TN_AT(tn_comm_api, make_id, 16)
  TN_AT(tn_comm_api, create, 24) TN_AT(tn_comm_api, limits, 32) TN_AT(tn_comm_api, submit, 40)
  TN_AT(tn_comm_api, split, 48) TN_AT(tn_comm_api, abort, 56) TN_AT(tn_comm_api, health, 64)
  TN_AT(tn_comm_api, destroy, 72)

/* ext/capture.h */
TN_SIZE(tn_capture_api, 40)
  TN_AT(tn_capture_api, header, 0) TN_AT(tn_capture_api, begin, 8) TN_AT(tn_capture_api, end, 16)
  TN_AT(tn_capture_api, replay, 24) TN_AT(tn_capture_api, destroy, 32)

/* ext/import.h */
TN_SIZE(tn_import_api, 32)
  TN_AT(tn_import_api, header, 0) TN_AT(tn_import_api, stream, 8) TN_AT(tn_import_api, memory, 16)
  TN_AT(tn_import_api, native, 24)

/* ext/ipc.h */
TN_SIZE(tn_ipc_api, 32)
  TN_AT(tn_ipc_api, header, 0) TN_AT(tn_ipc_api, ticket_bytes, 8) TN_AT(tn_ipc_api, export_memory, 16)
  TN_AT(tn_ipc_api, open_memory, 24)

/* ext/profile.h */
TN_SIZE(tn_profile_api, 16)
  TN_AT(tn_profile_api, header, 0) TN_AT(tn_profile_api, clocks, 8)
/* clang-format on */

#undef TN_ASSERT_LAYOUT
#undef TN_SIZE
#undef TN_AT

#endif
