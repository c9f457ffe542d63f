// SPDX-License-Identifier: Apache-2.0
// versions.cpp: see versions.hpp.
#include "plugin/versions.hpp"

#include <charconv>

namespace tenon::plugin {
namespace {

bool read_number(std::string_view text, uint16_t& out) noexcept {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_text(AbiVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

std::string to_text(const AbiRange& range) {
  return range.min == range.max ? to_text(range.max) : to_text(range.min) + " to " + to_text(range.max);
}

std::optional<AbiVersion> abi_version_from(std::string_view text) noexcept {
  AbiVersion version;
  const size_t dot = text.find('.');
  if (!read_number(text.substr(0, dot), version.major)) return std::nullopt;
  if (dot != std::string_view::npos && !read_number(text.substr(dot + 1), version.minor)) return std::nullopt;
  return version;
}

AbiRange range_of(const tn_host& host) noexcept {
  return {{host.min_major, host.min_minor}, {host.header.major, host.header.minor}};
}

Status check_ranges(const std::string& plugin, const AbiRange& needs, const AbiRange& host) {
  if (needs.meets(host)) return {};
  const std::string remedy =
      needs.min > host.max
          ? "update Tenon, or rebuild the plugin against sdk " + std::to_string(host.max.major) + ".x"
          : "rebuild the plugin against sdk " + std::to_string(host.max.major) + ".x";
  return Status(TN_VERSION, plugin + " needs ABI " + to_text(needs) + ", this host offers " + to_text(host) +
                                ": " + remedy);
}

}  // namespace tenon::plugin
