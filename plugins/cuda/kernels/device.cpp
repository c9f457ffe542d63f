// SPDX-License-Identifier: Apache-2.0
// device.cpp: the fatbin of device.cu, as the build has compiled it.
#include "device.hpp"

namespace tenon::cuda {

namespace {
#include "device_image.inc"
}

const void* device_image() noexcept { return device_bytes; }

}  // namespace tenon::cuda
