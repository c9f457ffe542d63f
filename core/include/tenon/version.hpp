// SPDX-License-Identifier: Apache-2.0
// version.hpp: the library's own version (SemVer) and the range of plugin ABIs it loads. The two move apart.
#pragma once

#include <tenon/export.hpp>

#define TENON_VERSION_MAJOR 0
#define TENON_VERSION_MINOR 1
#define TENON_VERSION_PATCH 0
#define TENON_VERSION "0.1.0"

namespace tenon {

// The version of the loaded library, which may be newer than the header. [any-thread; does not block; cannot fail]
TN_API const char* version() noexcept;

}  // namespace tenon
