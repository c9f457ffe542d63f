// SPDX-License-Identifier: Apache-2.0
// search.cpp: see search.hpp.
#include "plugin/search.hpp"

#include "base/file.hpp"
#include "base/library.hpp"
#include "base/text.hpp"
#include "plugin/trust.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tenon::plugin {
namespace {

constexpr const char* path_variable = "TENON_PLUGIN_PATH";
constexpr std::string_view prefix = "tenon-", library_suffix = ".so", manifest_suffix = ".toml";

bool has_form(const std::string& name, std::string_view suffix) {
  return name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix);
}

// A library whose manifest was looked for at `manifest_path` and is there.
Find find_with_manifest(const std::string& manifest_path) {
  Find find;
  auto manifest = read_manifest(manifest_path);
  const std::string folder = base::folder_of(manifest_path) + "/";
  if (!manifest.ok()) {
    const std::string neighbour = folder + base::stem_of(manifest_path) + std::string(library_suffix);
    find.path = base::file_kind(neighbour) == base::FileKind::absent ? manifest_path : neighbour;
    find.refusal = "its manifest cannot be used: " + std::string(manifest.message());
    return find;
  }
  find.path = folder + manifest->library;
  find.warnings = manifest->warnings;
  const std::string stem = base::stem_of(manifest_path);
  if (stem.starts_with(prefix) && stem.substr(prefix.size()) != manifest->name) {
    find.warnings.push_back(manifest_path + " names the plugin '" + manifest->name +
                            "': call the file tenon-" + manifest->name + ".toml");
  }
  if (base::file_kind(find.path) == base::FileKind::absent) {
    find.refusal = find.path + " does not exist, but " + manifest_path + " names it: install both or neither";
  }
  find.manifest = std::move(manifest).take();
  return find;
}

Find find_without_manifest(const std::string& path) {
  const std::string name = base::stem_of(path) + std::string(manifest_suffix);
  if (base::file_kind(base::folder_of(path) + "/" + name) != base::FileKind::absent) {
    return {.path = path,
            .refusal = "the manifest " + name + " beside it names another library: correct its 'library'"};
  }
  return {.path = path,
          .refusal = "no manifest " + name +
                     " beside it: install it with its manifest, which tenon_add_plugin() writes"};
}

// The libraries of one folder by name: those that a manifest names, then those that none does.
std::vector<Find> list_libraries(const std::string& folder, const std::vector<std::string>& names) {
  std::multimap<std::string, Find> by_name;
  std::set<std::string> named;
  for (const std::string& name : names) {
    if (!has_form(name, manifest_suffix)) continue;
    Find find = find_with_manifest(folder + "/" + name);
    named.insert(find.path);
    by_name.emplace(base::stem_of(name), std::move(find));
  }
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (!has_form(name, library_suffix) || named.contains(path)) continue;
    by_name.emplace(base::stem_of(name), find_without_manifest(path));
  }
  std::vector<Find> finds;
  for (auto& [name, find] : by_name) finds.push_back(std::move(find));
  return finds;
}

// The libraries of a folder that is refused: named, never read.
std::vector<Find> refuse_libraries(const std::string& folder, const std::vector<std::string>& names,
                                   const std::string& why) {
  std::vector<Find> finds;
  for (const std::string& name : names) {
    if (has_form(name, library_suffix)) finds.push_back({.path = folder + "/" + name, .refusal = why});
  }
  return finds;
}

class Search {
 public:
  explicit Search(bool elevated) : elevated_(elevated) {}

  void add_file(const std::string& path) {
    if (!base::is_absolute(path)) {
      findings_.files.push_back({.path = path, .refusal = relative(path) + ": give an absolute path"});
      return;
    }
    const std::string manifest =
        base::folder_of(path) + "/" + base::stem_of(path) + std::string(manifest_suffix);
    if (base::file_kind(path) == base::FileKind::absent) {
      findings_.files.push_back({.path = path, .refusal = path + " does not exist: check the path"});
    } else if (base::file_kind(manifest) == base::FileKind::absent) {
      findings_.files.push_back({.path = path});
      findings_.files.back().warnings.push_back(
          "no manifest " + base::name_of(manifest) +
          " beside it: what it needs could not be checked before opening it");
    } else {
      findings_.files.push_back(explicit_find(path, manifest));
    }
  }

  void add_folder(const std::string& path, const std::string& origin) {
    std::vector<Find> finds;
    const std::string remark = look_into(path, finds);
    findings_.folders.push_back({path, origin, remark});
    std::move(finds.begin(), finds.end(), std::back_inserter(findings_.files));
  }

  void add_remark(const std::string& path, const std::string& origin, const std::string& remark) {
    findings_.folders.push_back({path, origin, remark});
  }

  Findings take() { return std::move(findings_); }

 private:
  static std::string relative(const std::string& path) {
    return path.empty()
               ? "an empty path would mean the working directory, which is never searched: refused"
               : "'" + path + "' is relative to the working directory, which is never searched: refused";
  }

  static Find explicit_find(const std::string& path, const std::string& manifest) {
    Find find = find_with_manifest(manifest);
    if (find.manifest && find.path != path) {
      find.refusal = manifest + " names the library '" + find.manifest->library + "', not '" +
                     base::name_of(path) + "': correct the manifest or give that file";
    }
    find.path = path;
    return find;
  }

  std::string look_into(const std::string& path, std::vector<Find>& finds) {
    if (!base::is_absolute(path)) return relative(path);
    const base::FileKind kind = base::file_kind(path);
    if (kind == base::FileKind::absent) return "does not exist";
    if (kind != base::FileKind::folder) return "is not a folder";
    const auto real = base::real_path(path);
    if (!real.ok()) return std::string(real.message());
    const auto [earlier, is_new] = seen_.emplace(*real, path);
    if (!is_new) return "the same folder as " + earlier->second + ", which is searched already";
    const auto names = base::list_folder(path);
    if (!names.ok()) return std::string(names.message());
    const Status trusted = check_writers(path, "folder", elevated_);
    finds = trusted.ok() ? list_libraries(path, *names)
                         : refuse_libraries(path, *names, std::string(trusted.message()));
    return trusted.ok() ? "" : "refused: " + std::string(trusted.message());
  }

  bool elevated_;
  Findings findings_;
  std::map<std::string, std::string> seen_;  // real path → as first given
};

void add_environment(Search& search, const base::Environment& environment) {
  if (environment.ignored(path_variable)) {
    search.add_remark("", path_variable, "ignored: this process runs with elevated rights");
    return;
  }
  const auto value = environment.get(path_variable);
  if (!value || value->empty()) return;
  for (const std::string& folder : base::split(*value, ':')) search.add_folder(folder, path_variable);
}

}  // namespace

Surroundings Surroundings::of_process() {
  const std::string own = base::own_folder();
  return {base::Environment::of_process(), own.empty() ? "" : own + "/tenon/plugins"};
}

Findings search(const RuntimeOptions& options, const Surroundings& surroundings) {
  Search search(surroundings.environment.elevated());
  for (const std::string& file : options.plugins) search.add_file(file);
  for (const std::string& folder : options.search_path) search.add_folder(folder, "options.search_path");
  if (options.use_environment) add_environment(search, surroundings.environment);
  if (options.use_install_path && !surroundings.install_folder.empty()) {
    search.add_folder(surroundings.install_folder, "install");
  }
  return search.take();
}

}  // namespace tenon::plugin
