// SPDX-License-Identifier: Apache-2.0
// explain_passes.cpp: see explain_passes.hpp.
#include "explain_passes.hpp"

#include <algorithm>
#include <vector>

namespace tenon::tool {
namespace {

constexpr size_t named = 3, pass_width = 10;

// Names of values left out. A quote opens one where a word may begin: "the norm's" has none.
std::string unnamed(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t begin = text.find('\'', at);
    while (begin != text.npos && begin > 0 && text[begin - 1] != ' ' && text[begin - 1] != '(')
      begin = text.find('\'', begin + 1);
    const size_t end = begin == text.npos ? begin : text.find('\'', begin + 1);
    if (end == text.npos) return out + text.substr(at);
    out += text.substr(at, begin - at) + "'…'";
    at = end + 1;
  }
  return out;
}

// Notes that say the same of several places, but for names.
struct Notes {
  const passes::Note* note;
  std::vector<std::string> where{};
};

bool same(const passes::Note& a, const passes::Note& b) {
  return a.pass == b.pass && a.applied == b.applied && unnamed(a.what) == unnamed(b.what) &&
         unnamed(a.reason) == unnamed(b.reason);
}

std::string text(const Notes& row) {
  std::string out = row.note->applied ? "pass     " : "not done ";
  out += row.note->pass;
  out.append(out.size() < 9 + pass_width ? 9 + pass_width - out.size() : 1, ' ');
  for (size_t i = 0; i < std::min(row.where.size(), named); ++i)
    out += (i > 0 ? ", '" : "'") + row.where[i] + "'";
  if (row.where.size() > named) out += " and " + std::to_string(row.where.size() - named) + " more";
  const auto words = [&](const std::string& said) { return row.where.size() > 1 ? unnamed(said) : said; };
  return out + (row.where.empty() ? "" : ": ") + words(row.note->what) + ": " + words(row.note->reason) +
         "\n";
}

}  // namespace

std::string told_passes(std::span<const passes::Note> notes) {
  std::vector<Notes> rows;
  for (const passes::Note& note : notes) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Notes& l) { return same(*l.note, note); });
    if (row == rows.end()) row = rows.insert(row, {.note = &note});
    if (!note.where.empty()) row->where.push_back(note.where);
  }
  std::string out;
  for (const bool applied : {true, false}) {
    for (const Notes& row : rows)
      if (row.note->applied == applied) out += text(row);
  }
  return out;
}

}  // namespace tenon::tool
