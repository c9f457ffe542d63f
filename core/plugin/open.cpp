// SPDX-License-Identifier: Apache-2.0
// open.cpp: see open.hpp. The border where a plugin's exceptions end, should it let one out.
#include "plugin/open.hpp"

#include "base/file.hpp"
#include "base/library.hpp"
#include "base/text.hpp"

#include <exception>
#include <utility>

namespace tenon::plugin {
namespace {

// The system's words stay; what they call for is added.
std::string remedy_of(std::string_view text) {
  const auto says = [text](std::string_view words) { return text.find(words) != std::string_view::npos; };
  if (says("cannot open shared object file")) {
    return ": install the library it needs, or add that library's folder to the plugin's run path";
  }
  if (says("undefined symbol"))
    return ": it was linked against other versions of its libraries; rebuild it here";
  if (says("version `")) return ": it was built for newer system libraries; rebuild it here";
  if (says("failed to map") || says("Permission denied"))
    return ": mount its folder without noexec, or move it";
  return ": rebuild or reinstall it";
}

Result<tn_plugin_entry_fn> find_entry(const std::string& path, const std::string& file) {
  auto library = base::Library::open(path);
  if (!library.ok()) {
    return Status(Error{.code = TN_INVALID,
                        .message = file + " cannot be opened: " + base::printable(library.message(), 300) +
                                   remedy_of(library.message()),
                        .domain = "dlopen"});
  }
  void* symbol = library->symbol(TN_PLUGIN_ENTRY_NAME);
  if (symbol == nullptr) {
    return Status(TN_INVALID,
                  file + " does not export " TN_PLUGIN_ENTRY_NAME
                         ": it is no Tenon plugin, or its entry is hidden; build it with tenon_add_plugin()");
  }
  return reinterpret_cast<tn_plugin_entry_fn>(symbol);
}

Status escaped(const std::string& file, const char* text) {
  return Status(TN_INTERNAL, file + " let an exception out of " TN_PLUGIN_ENTRY_NAME " (" +
                                 base::quoted(text) + "): return NULL with the reason instead");
}

Status refusal(const std::string& file, const tn_error& error) {
  if (error.code == TN_OK) {
    return Status(
        TN_INTERNAL,
        file + " returned no descriptor and gave no reason: fill the tn_error before returning NULL");
  }
  const Status said = status_of(error.code, error);
  Error failure = said.error();
  failure.message = file + " refused to start: " + base::printable(failure.message, sizeof error.message) +
                    " (" + code_name(failure.code) + ")";
  return Status(std::move(failure));
}

Result<const tn_plugin*> call_entry(tn_plugin_entry_fn entry, const std::string& file, const tn_host& host) {
  tn_error error = no_error();
  try {
    const tn_plugin* plugin = entry(&host, &error);
    if (plugin == nullptr) return refusal(file, error);
    return plugin;
  } catch (const std::exception& exception) {
    return escaped(file, exception.what());
  } catch (...) {
    return escaped(file, "not a std::exception");
  }
}

Status check_version(const tn_header& header, const std::string& who, const AbiRange& range) {
  const AbiVersion version{header.major, header.minor};
  if (range.contains(version)) return {};
  const char* remedy = version > range.max ? ": update Tenon, or rebuild the plugin against sdk "
                                           : ": rebuild it against sdk ";
  return Status(TN_VERSION, who + " answered with ABI " + to_text(version) + ", this host asked for " +
                                to_text(range) + remedy + std::to_string(range.max.major) + ".x");
}

Status check_name(const std::string& file, std::string_view said, const std::string& expected) {
  if (expected.empty() || said == expected) return {};
  return Status(TN_MISMATCH, file + " calls itself " + base::quoted(said, 64) + ", its manifest says '" +
                                 expected + "': make tn_plugin.name and the manifest's name equal");
}

}  // namespace

Result<std::unique_ptr<Tables>> open_plugin(const std::string& path, const std::string& name,
                                            const tn_host& host, const Progress& progress) {
  const auto reach = [&](Stage stage) {
    if (progress) progress(stage);
  };
  const std::string file = base::name_of(path);
  reach(Stage::open);
  const tn_plugin_entry_fn entry = TN_TRY(find_entry(path, file));
  reach(Stage::entry);
  const tn_plugin* plugin = TN_TRY(call_entry(entry, file, host));
  reach(Stage::tables);
  TN_TRY(check_version(plugin->header, file, range_of(host)));
  auto tables = TN_TRY(complete(*plugin));
  TN_TRY(check_name(file, tables->descriptor.name, name));
  return tables;
}

}  // namespace tenon::plugin
