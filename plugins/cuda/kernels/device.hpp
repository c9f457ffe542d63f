// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
namespace tenon::cuda {
struct FillParameters { uint64_t dst, bytes, pattern; uint32_t pattern_bytes, reserved; };
struct BoxParameters { uint64_t dst, src, extent[4], dst_stride[4], src_stride[4]; };
const void* device_image() noexcept;
}
