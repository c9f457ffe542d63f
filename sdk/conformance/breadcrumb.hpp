// SPDX-License-Identifier: Apache-2.0
// breadcrumb.hpp: the name of the call a worker is in, in memory that the runner can read after the worker died.
//
// Invariant: only the worker's main thread writes, so a breadcrumb is whole; without a runner it goes nowhere.
#pragma once

#include <string>
#include <string_view>

namespace tenon::conform {

inline constexpr int breadcrumb_descriptor = 4;
inline constexpr size_t breadcrumb_bytes = 512;

// Shares the breadcrumb with the runner through `descriptor`, which is closed. [main thread; may block; cannot fail]
void share_breadcrumb(int descriptor) noexcept;
// Notes that the call `what` begins. [any-thread; does not block; cannot fail]
void leave_breadcrumb(std::string_view what) noexcept;
// What was left in the file behind `descriptor`. [any-thread; may block; cannot fail]
std::string read_breadcrumb(int descriptor);

}  // namespace tenon::conform
