// SPDX-License-Identifier: Apache-2.0
// extensions.hpp: the table of an extension, for cases about what it offers.
//
// Invariant: a table that comes out of here is as long as this kit's and lacks no function.
#pragma once

#include "conformance/context.hpp"

#include <tenon/abi.h>

#include <initializer_list>

namespace tenon::conform {

// What the plugin gives for an id, or null. [any-thread; does not block; cannot fail]
inline const void* asked_for(const Tables& api, const char* id) {
  if (api.copy.extension == nullptr) return nullptr;
  const Breadcrumb here(words("extension(\"", std::string(id).substr(0, 40), "\")"));
  return api.copy.extension(api.plugin, id);
}

// The extension's table; skips the case where the plugin does not offer it, which is no gap: its host does without.
// `complete` says whether the functions of a table are there. [case's thread; may fail]
template <class Table, class Complete>
Result<const Table*> extension_of(Context& t, const char* id, const Complete& complete) {
  const Tables& api = *TN_TRY(t.tables());
  const void* const found = asked_for(api, id);
  if (found == nullptr) return t.skip(words("the plugin does not offer ", id));
  const auto* const table = static_cast<const Table*>(found);
  TN_TRY(t.require(table->header.size >= sizeof(Table) && complete(*table), "the table of ", id,
                   " has a size of ", table->header.size, " of ", sizeof(Table),
                   " bytes, or lacks a function"));
  return table;
}

}  // namespace tenon::conform
