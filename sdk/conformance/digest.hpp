// SPDX-License-Identifier: Apache-2.0
// digest.hpp: SHA-256 of a file, so that a report names the very library it judged.
#pragma once

#include <tenon/result.hpp>

#include <span>
#include <string>

namespace tenon::conform {

// In hex. TN_NOT_FOUND when the file cannot be read. [any-thread; may block; may fail]
Result<std::string> file_digest(const std::string& file);
// In hex. [any-thread; does not block; cannot fail]
std::string digest(std::span<const unsigned char> bytes);

}  // namespace tenon::conform
