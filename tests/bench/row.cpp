// SPDX-License-Identifier: Apache-2.0
// row.cpp: a row as a line of JSON, the form that bench.py reads.
#include "row.hpp"

#include <cstdio>

namespace bench {

namespace {

void print_list(const char* key, const std::vector<double>& values) {
  std::printf(", \"%s\": [", key);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.4g", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

// What may stand between quotes as it is.
std::string plain(const std::string& text) {
  std::string words;
  for (const char c : text)
    words += c == '"' || c == '\\' || (static_cast<unsigned char>(c) < 0x20) ? '\'' : c;
  return words;
}

void print_text(const char* key, const std::string& text) {
  if (text.empty())
    std::printf(", \"%s\": null", key);
  else
    std::printf(", \"%s\": \"%s\"", key, plain(text).c_str());
}

}  // namespace

void print(const Row& row) {
  std::printf("{\"name\": \"%s\", \"unit\": \"%s\", \"judge\": \"%s\"", row.name.c_str(), row.unit.c_str(),
              row.median ? "median" : "fastest");
  row.limit > 0 ? std::printf(", \"limit\": %.6g", row.limit) : std::printf(", \"limit\": null");
  if (row.bytes > 0) std::printf(", \"bytes\": %.6g", row.bytes);
  print_text("peer", row.peer);
  print_list("ours", row.ours);
  if (row.theirs.empty())
    std::printf(", \"theirs\": null");
  else
    print_list("theirs", row.theirs);
  print_text("why_no_peer", row.why_no_peer);
  std::printf("}\n");
  std::fflush(stdout);
}

void note(const std::string& words) {
  std::printf("{\"note\": \"%s\"}\n", plain(words).c_str());
  std::fflush(stdout);
}

void left_out(const std::string& name, const std::string& why) {
  std::printf("{\"name\": \"%s\", \"left_out\": \"%s\"}\n", name.c_str(), plain(why).c_str());
  std::fflush(stdout);
}

}  // namespace bench
