// SPDX-License-Identifier: Apache-2.0
// prelude.hpp: the .cuh files of this folder as one text, the head of every generated source; made by embed.cmake.
#pragma once

#include <string_view>

namespace tenon::cuda {

std::string_view prelude_source() noexcept;

}  // namespace tenon::cuda
