// SPDX-License-Identifier: Apache-2.0
// text.hpp: numbers in specs and ranges in findings.
#pragma once

#include <tenon/fragment.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::layers {

// A decimal number that is all of `text`. [any-thread; does not block; cannot fail]
std::optional<uint64_t> number(std::string_view text);

// "[0, 4096)". [any-thread; does not block; cannot fail]
std::string range_text(uint64_t begin, uint64_t end);

// "0x7f00". [any-thread; does not block; cannot fail]
std::string hex_number(uint64_t value);

// The fragment's name, or its first ops: "matmul+add+relu+…". [any-thread; does not block; cannot fail]
std::string fragment_label(const tn_fragment& fragment);

}  // namespace tenon::layers
