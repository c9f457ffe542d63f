// SPDX-License-Identifier: Apache-2.0
// versions.hpp: ABI versions and whether two sides can talk.
//
// Invariant: a refusal names both ranges and which side has to move.
#pragma once

#include <tenon/host.h>
#include <tenon/result.hpp>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::plugin {

struct AbiVersion {
  uint16_t major = 0, minor = 0;
  auto operator<=>(const AbiVersion&) const = default;
};

struct AbiRange {
  AbiVersion min, max;
  bool contains(AbiVersion version) const noexcept { return min <= version && version <= max; }
  bool meets(const AbiRange& other) const noexcept { return min <= other.max && other.min <= max; }
};

// "1.0". [any-thread; does not block; cannot fail]
std::string to_text(AbiVersion version);
// "1.0", or "1.0 to 1.3". [any-thread; does not block; cannot fail]
std::string to_text(const AbiRange& range);
// Reads "1.0" or "1"; nothing for any other text. [any-thread; does not block; cannot fail]
std::optional<AbiVersion> abi_version_from(std::string_view text) noexcept;
// What `host` offers. [any-thread; does not block; cannot fail]
AbiRange range_of(const tn_host& host) noexcept;
// TN_VERSION when `plugin` ("plugin 'x'") and the host have no version in common. [any-thread; does not block; may fail]
Status check_ranges(const std::string& plugin, const AbiRange& needs, const AbiRange& host);

}  // namespace tenon::plugin
