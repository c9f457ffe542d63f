// SPDX-License-Identifier: Apache-2.0
// entry.cpp: the library as a file, and what its entry returns.
#include "conformance/case.hpp"
#include "conformance/elf.hpp"
#include "conformance/extensions.hpp"
#include "conformance/objects.hpp"

#include <dlfcn.h>

#include <cstring>

namespace tenon::conform {

namespace {

bool semver(const char* text) {
  int dots = 0;
  if (text == nullptr || *text == '\0') return false;
  for (const char* c = text; *c != '\0' && *c != '-' && *c != '+'; ++c) {
    if (*c == '.') {
      ++dots;
    } else if (*c < '0' || *c > '9') {
      return false;
    }
  }
  return dots == 2;
}

template <class Table>
void check_header(Context& t, const char* name, const Table* table) {
  if (table == nullptr) return;
  t.check(table->header.major == TN_ABI_MAJOR, "the ", name, " table is of ABI ", table->header.major, ".",
          table->header.minor, ", the descriptor of ", TN_ABI_MAJOR);
}

}  // namespace

// The runner enters every plugin through this case first.
CONFORM_CASE(0, "abi: the entry returns a complete descriptor", .alone = true) {
  const Library library = TN_TRY(t.library());
  const Tables api = TN_TRY(enter(library.entry, t.host().table));
  const tn_plugin& p = api.copy;
  t.check(p.header.major == TN_ABI_MAJOR && p.header.minor <= TN_ABI_MINOR, "the descriptor is of ABI ",
          p.header.major, ".", p.header.minor, ", this host offers ", TN_ABI_MAJOR, ".0 … ", TN_ABI_MAJOR,
          ".", TN_ABI_MINOR);
  t.check(p.name != nullptr && p.name[0] != '\0', "the descriptor has no name");
  t.check(p.vendor != nullptr && p.vendor[0] != '\0', "the descriptor has no vendor");
  t.check(semver(p.version), "the version '", p.version != nullptr ? p.version : "",
          "' is not of the form 1.2.3");
  TN_TRY(t.require(p.device != nullptr, "the descriptor has no device table"));
  TN_TRY(t.require(p.stream != nullptr, "the descriptor has no stream table"));
  check_header(t, "device", p.device);
  check_header(t, "stream", p.stream);
  check_header(t, "kernel", p.kernel);
  check_header(t, "communicator", p.comm);
  const std::string missing = missing_function(api);
  t.check(missing.empty(), "the plugin has no ", missing, ", which every plugin must have");
  t.check((api.stream.promise == nullptr) == (api.stream.signal == nullptr),
          "promise and signal come together");
  return {};
}

CONFORM_CASE(0, "abi: the library exports tn_plugin_entry and nothing else") {
  const auto names = exported_symbols(t.settings().plugin);
  TN_TRY(t.require(names.ok(), names.message()));
  std::string others;
  size_t count = 0;
  for (const std::string& name : *names) {
    if (name == TN_PLUGIN_ENTRY_NAME) continue;
    if (++count <= 5) others += (others.empty() ? "" : ", ") + name;
  }
  t.check(count == 0, count, " more symbols are exported: ", others, count > 5 ? ", …" : "",
          ": build with -fvisibility=hidden and the version script of tenon_add_plugin()");
  t.check(names->size() > count, "tn_plugin_entry is not exported");
  return {};
}

CONFORM_CASE(0, "abi: a second entry call returns the same descriptor") {
  const Library library = TN_TRY(t.library());
  const Tables first = TN_TRY(enter(library.entry, t.host().table));
  const Tables second = TN_TRY(enter(library.entry, t.host().table));
  t.check(first.plugin == second.plugin, "two entry calls gave two descriptors");
  return {};
}

CONFORM_CASE(0, "abi: an unknown extension is NULL") {
  const Tables& api = *TN_TRY(t.tables());
  if (api.copy.extension == nullptr) return t.require(true);
  const std::string longest(5000, 'x');
  for (const char* id : {"no.such.thing/1", "", "tn.capture/999", "tn.", longest.c_str()}) {
    t.check(asked_for(api, id) == nullptr, "extension '", std::string(id).substr(0, 40),
            "' is unknown to everyone, and yet it is not NULL");
  }
  for (const char* id : {TN_CAPTURE_ID, TN_IMPORT_ID, TN_IPC_ID, TN_PROFILE_ID}) {
    const auto* header = static_cast<const tn_header*>(asked_for(api, id));
    if (header == nullptr) continue;
    t.check(header->size >= sizeof(tn_header) && header->size < 65536, "extension '", id,
            "' claims a size of ", header->size, " bytes");
    t.check(asked_for(api, id) == header, "extension '", id, "' is another one at the second call");
  }
  return {};
}

CONFORM_CASE(0, "abi: the library opens twice") {
  const Library first = TN_TRY(t.library());
  const Library second = TN_TRY(open_library(t.settings().plugin));
  t.check(first.entry == second.entry, "opening the same file twice gave two libraries");
  const Tables one = TN_TRY(enter(first.entry, t.host().table));
  const Tables two = TN_TRY(enter(second.entry, t.host().table));
  t.check(one.plugin == two.plugin, "opening the same file twice gave two descriptors");
  dlclose(second.handle);
  TN_TRY(t.device());
  return {};
}

}  // namespace tenon::conform
