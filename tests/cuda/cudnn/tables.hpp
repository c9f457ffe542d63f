// SPDX-License-Identifier: Apache-2.0
// tables.hpp: the real cuDNN beside the tables of what it has plans for.
//
// Invariant: the tables are of one version of cuDNN; another one is a visible skip, as is a machine without the library.
#pragma once

#include "engine/cudnn.hpp"

#include "support/skip.hpp"

#include <fstream>
#include <sstream>

namespace cudnn_tables {

inline constexpr uint32_t table_version = 91900;

inline std::string text_file(const std::string& name) {
  std::ifstream in(std::string(CUDNN_TABLES) + "/" + name);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace cudnn_tables

#define REAL_CUDNN(library)                                                              \
  const auto opened = tenon::cuda::Cudnn::open(nullptr, "what is asked for here");       \
  if (!opened.ok()) TENON_SKIP("cudnn", std::string(opened.message()));                  \
  const tenon::cuda::Cudnn& library = **opened;                                          \
  if (library.version() != cudnn_tables::table_version)                                  \
  TENON_SKIP("cudnn", "cuDNN is " + tenon::cuda::cudnn_version_text(library.version()) + \
                          ", and the table of " +                                        \
                          tenon::cuda::cudnn_version_text(cudnn_tables::table_version))
