// SPDX-License-Identifier: Apache-2.0
// version.cpp: the library's own version, compiled in so that a newer library tells it to an older program.
#include <tenon/version.hpp>

namespace tenon {

const char* version() noexcept { return TENON_VERSION; }

}  // namespace tenon
