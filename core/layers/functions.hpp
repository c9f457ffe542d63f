// SPDX-License-Identifier: Apache-2.0
// functions.hpp: the ABI's functions by name, for traces, faults and findings.
//
// Invariant: a short name ("launch") is one that only one table has; the others are "stream.create", "comm.create", and
// "import.memory" for what stands in the table of an extension.
#pragma once

#include <tenon/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::layers {

enum class Function : uint32_t {
#define TN_FUNCTION(table, slot, method) method,
#define TN_EXTENSION_FUNCTION TN_FUNCTION
#include "layers/functions.def"
  quiesce,
  shutdown,
  count_,
};
inline constexpr size_t function_count = static_cast<size_t>(Function::count_);

// "launch", "stream.create". [any-thread; does not block; cannot fail]
const char* function_name(Function function) noexcept;

// The function called `text`, short or with its table ("device.alloc"). TN_INVALID with the nearest name, or with the
// choices when several tables have it. [any-thread; does not block; may fail]
Result<Function> function_from(std::string_view text);

}  // namespace tenon::layers
