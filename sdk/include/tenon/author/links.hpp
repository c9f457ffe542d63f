// SPDX-License-Identifier: Apache-2.0
// links.hpp: extension links that a caller insists on.
//
// Invariant: a link flagged MUST_UNDERSTAND whose id the plugin does not know ends the call with
// TN_UNSUPPORTED.
#pragma once

#include <tenon/author/instance.hpp>

namespace tenon::author {

// A plugin that reads links says which: `static bool understands(std::string_view id)`. Without it none are
// known.
template <class Plugin>
bool understands(std::string_view id) {
  if constexpr (requires {
                  { Plugin::understands(id) } -> std::same_as<bool>;
                }) {
    return Plugin::understands(id);
  } else {
    return false;
  }
}

template <class Plugin>
Status check_links(const tn_link* first, std::string_view where) {
  for (const tn_link* link = first; link != nullptr; link = link->next) {
    if ((link->flags & TN_LINK_MUST_UNDERSTAND) == 0) continue;
    const std::string_view id = link->id != nullptr ? link->id : "";
    if (understands<Plugin>(id)) continue;
    return Status(TN_UNSUPPORTED, text(where, ": extension '", id, "' must be understood, and plugin '",
                                       Plugin::identity.name, "' does not know it"));
  }
  return {};
}

}  // namespace tenon::author
