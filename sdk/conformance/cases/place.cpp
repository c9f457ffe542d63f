// SPDX-License-Identifier: Apache-2.0
// place.cpp: where the library lies, and where it looks for others: nobody else may put code there.
#include "conformance/case.hpp"
#include "conformance/context.hpp"
#include "conformance/elf.hpp"

#include <sys/stat.h>

#include <filesystem>

namespace tenon::conform {

namespace {

bool anyone_writes(const std::filesystem::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & S_IWOTH) != 0;
}

// "$ORIGIN/../lib" seen from the folder of the library.
std::string resolved(std::string place, const std::string& folder) {
  for (const std::string_view name : {"${ORIGIN}", "$ORIGIN"}) {
    if (place.starts_with(name)) place = folder + place.substr(name.size());
  }
  return place;
}

}  // namespace

CONFORM_CASE(0, "abi: nobody else may write the library or its folder") {
  std::error_code gone;
  const std::filesystem::path named(t.settings().plugin), real = std::filesystem::canonical(named, gone);
  TN_TRY(t.require(!gone, "'", named.string(), "': ", gone.message()));
  const std::filesystem::path folder = std::filesystem::absolute(named).parent_path();
  for (const auto& path : {real, real.parent_path(), folder})
    t.check(!anyone_writes(path), path.string(),
            " is world-writable, so anybody could put code there, and hosts refuse it: chmod o-w");
  return {};
}

CONFORM_CASE(0, "abi: it looks for libraries in no place that the caller chooses or anybody writes") {
  const auto places = search_paths(t.settings().plugin);
  TN_TRY(t.require(places.ok(), places.message()));
  std::error_code gone;
  const std::string folder = std::filesystem::canonical(t.settings().plugin, gone).parent_path();
  for (const std::string& written : *places) {
    const std::string place = resolved(written, folder);
    t.check(place.starts_with('/'), "the search path '", written,
            "' (RUNPATH) is relative: what is loaded would depend on the working directory; begin it with "
            "$ORIGIN");
    t.check(!anyone_writes(place), "the search path '", written,
            "' (RUNPATH) is world-writable: anybody could put a library there");
  }
  return {};
}

}  // namespace tenon::conform
