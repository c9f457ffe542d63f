// SPDX-License-Identifier: Apache-2.0
// format.hpp: what marks a file of this room.
#pragma once

#include <string_view>

namespace tenon::trace {

inline constexpr std::string_view format = "tenon.trace/1";

}  // namespace tenon::trace
