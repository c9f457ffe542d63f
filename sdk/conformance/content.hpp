// SPDX-License-Identifier: Apache-2.0
// content.hpp: a file's bytes, whole.
#pragma once

#include "conformance/words.hpp"

#include <tenon/result.hpp>

#include <algorithm>
#include <fstream>
#include <string>

namespace tenon::conform {

// TN_NOT_FOUND when it cannot be read. [any-thread; may block; may fail]
inline Result<std::string> content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  std::string content(in ? static_cast<size_t>(std::max<std::streamoff>(in.tellg(), 0)) : 0, '\0');
  in.seekg(0).read(content.data(), static_cast<std::streamsize>(content.size()));
  if (!in) return Status(TN_NOT_FOUND, words("'", file, "' cannot be read"));
  return content;
}

}  // namespace tenon::conform
