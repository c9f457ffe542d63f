// SPDX-License-Identifier: Apache-2.0
// trust.cpp: see trust.hpp.
#include "plugin/trust.hpp"

#include "base/file.hpp"

namespace tenon::plugin {

Status check_writers(const std::string& path, const char* what, bool elevated) {
  switch (TN_TRY(base::writers_of(path, elevated))) {
    case base::Writers::trusted:
      return {};
    case base::Writers::everybody:
      return Status(TN_INVALID, std::string("the ") + what + " " + path +
                                    " is world-writable, so anybody could have put code there: chmod o-w " +
                                    path);
    case base::Writers::group:
      return Status(TN_INVALID,
                    std::string("the ") + what + " " + path +
                        " is group-writable and this process runs with elevated rights: chmod g-w " + path);
  }
  return {};
}

Status check_trusted_file(const std::string& path, const std::string& real_path, bool elevated) {
  const std::string folder = base::folder_of(path), real_folder = base::folder_of(real_path);
  TN_TRY(check_writers(folder, "folder", elevated));
  if (real_folder != folder) TN_TRY(check_writers(real_folder, "folder", elevated));
  return check_writers(real_path, "file", elevated);
}

}  // namespace tenon::plugin
