// SPDX-License-Identifier: Apache-2.0
// capabilities.cpp: reads capabilities.toml strictly and holds it against findings.
#include "conformance/capabilities.hpp"

#include "conformance/digest.hpp"
#include "conformance/words.hpp"

#define TOML_HEADER_ONLY 1
#include <fnmatch.h>
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace tenon::conform {

namespace {

std::string place(const std::string& file, const toml::node& node) {
  return words(file, ":", node.source().begin.line);
}

Status unknown_key(const std::string& file, const toml::node& node, std::string_view key,
                   std::string_view known) {
  return Status(TN_INVALID, words(place(file, node), ": unknown key '", key, "'; known are ", known));
}

Result<std::string> text_of(const std::string& file, const toml::table& table, const char* key) {
  const auto value = table[key].value<std::string>();
  if (value && !value->empty()) return *value;
  return Status(TN_INVALID, words(place(file, table), ": '", key, "' is missing, empty or not a string"));
}

Result<std::string> date_of(const std::string& file, const toml::table& table, bool needed) {
  if (!needed && !table.contains("expires")) return std::string();
  std::ostringstream out;
  if (const auto date = table["expires"].value<toml::date>()) {
    out << *date;
    return std::move(out).str();
  }
  return Status(TN_INVALID,
                words(place(file, table), ": 'expires' is missing or not a date such as 2026-12-31"));
}

Result<Declaration> read_entry(const std::string& file, const toml::table& table, bool dated) {
  for (const auto& [key, node] : table) {
    if (key == "match" || key == "reason" || key == "expires") continue;
    return unknown_key(file, node, key.str(), "match, reason, expires");
  }
  Declaration out {
    .match = TN_TRY(text_of(file, table, "match"))
    , .reason = TN_TRY(text_of(file, table, "reason"))
  };
  out.expires = TN_TRY(date_of(file, table, dated));
  return out;
}

Result<std::vector<Declaration>> read_list(const std::string& file, const toml::table& root, const char* key,
                                           bool dated) {
  std::vector<Declaration> out;
  const toml::node* list = root.get(key);
  if (list == nullptr) return out;
  if (list->as_array() == nullptr) {
    return Status(TN_INVALID, words(place(file, *list), ": write [[", key, "]], one table per entry"));
  }
  for (const toml::node& entry : *list->as_array()) {
    const toml::table* table = entry.as_table();
    if (table == nullptr)
      return Status(TN_INVALID, words(place(file, entry), ": an entry of ", key, " is no table"));
    out.push_back(TN_TRY(read_entry(file, *table, dated)));
  }
  return out;
}

Result<Capabilities> read_root(const std::string& file, const toml::table& root) {
  for (const auto& [key, node] : root) {
    if (key == "plugin" || key == "unsupported" || key == "expected_failure") continue;
    return unknown_key(file, node, key.str(), "[plugin], [[unsupported]], [[expected_failure]]");
  }
  const toml::table* plugin = root["plugin"].as_table();
  if (plugin == nullptr)
    return Status(TN_INVALID, words(file, ": the table [plugin] with the key 'name' is missing"));
  for (const auto& [key, node] : *plugin) {
    if (key != "name") return unknown_key(file, node, key.str(), "name");
  }
  Capabilities out;
  out.file = file;
  out.plugin = TN_TRY(text_of(file, *plugin, "name"));
  out.unsupported = TN_TRY(read_list(file, root, "unsupported", false));
  out.expected_failures = TN_TRY(read_list(file, root, "expected_failure", true));
  return out;
}

bool matches(const Declaration& entry, const CaseResult& result) {
  return glob(entry.match, result.name) ||
         (!result.finding.tag.empty() && glob(entry.match, result.finding.tag));
}

bool expired(const Declaration& entry, const std::string& today) {
  return !entry.expires.empty() && today > entry.expires;
}

// The entry that speaks of `result`: one that is still good before one past its date.
const Declaration* find(const std::vector<Declaration>& list, const CaseResult& result,
                        const std::string& today) {
  const Declaration* late = nullptr;
  for (const Declaration& entry : list) {
    if (!matches(entry, result)) continue;
    if (!expired(entry, today)) return &entry;
    if (late == nullptr) late = &entry;
  }
  return late;
}

Verdict verdict_of_failure(CaseResult& result, const Capabilities& declared, const std::string& today) {
  const Declaration* known = find(declared.expected_failures, result, today);
  if (known == nullptr) return Verdict::failed;
  result.declared = known->reason;
  result.expires = known->expires;
  if (!expired(*known, today)) return Verdict::expected_failure;
  result.finding.failures.push_back(
      words("it was an expected failure until ", known->expires, ": ", known->reason));
  return Verdict::failed;
}

Verdict verdict_of_pass(CaseResult& result, const Capabilities& declared, const std::string& today) {
  const Declaration* known = find(declared.expected_failures, result, today);
  if (known == nullptr) known = find(declared.unsupported, result, today);
  if (known == nullptr) return Verdict::passed;
  result.declared = known->reason;
  result.finding.warnings.push_back(
      words("works, although ", declared.file, " declares otherwise: ", known->reason));
  return Verdict::unexpected_pass;
}

Verdict verdict_of_gap(CaseResult& result, const Capabilities& declared, const std::string& today) {
  const Declaration* known = find(declared.unsupported, result, today);
  if (known == nullptr) return Verdict::unexplained;
  if (expired(*known, today)) {
    result.finding.warnings.push_back(
        words("it was declared unsupported until ", known->expires, ": ", known->reason));
    return Verdict::unexplained;
  }
  result.declared = known->reason;
  result.expires = known->expires;
  return Verdict::unsupported;
}

void audit_list(std::vector<std::string>& out, const char* list, const std::string& file,
                const std::vector<Declaration>& entries, const std::vector<CaseResult>& results,
                const std::string& today, bool complete) {
  for (const Declaration& entry : entries) {
    const std::string who = words(file, ": [[", list, "]] '", entry.match, "'");
    if (expired(entry, today)) {
      out.push_back(words(who, " expired on ", entry.expires,
                          ": mend the plugin, or argue for another date (", entry.reason, ")"));
    }
    const bool used = std::any_of(results.begin(), results.end(),
                                  [&](const CaseResult& result) { return matches(entry, result); });
    if (complete && !used) {
      out.push_back(words(
          who, " excuses nothing: no case and no gap is called so: correct its 'match', or take it out"));
    }
  }
}

}  // namespace

bool glob(const std::string& pattern, std::string_view text) {
  return fnmatch(pattern.c_str(), std::string(text).c_str(), 0) == 0;
}

Result<Capabilities> parse_capabilities(std::string_view text, const std::string& file) {
  try {
    const toml::table root = toml::parse(text, file);
    return read_root(file, root);
  } catch (const toml::parse_error& error) {
    return Status(TN_INVALID, words(file, ":", error.source().begin.line, ": ", error.description()));
  }
}

Result<Capabilities> read_capabilities(const std::string& file) {
  std::ifstream in(file);
  if (!in) return Status(TN_NOT_FOUND, words("'", file, "' cannot be read"));
  std::ostringstream content;
  content << in.rdbuf();
  const std::string text = content.str();
  Capabilities out = TN_TRY(parse_capabilities(text, file));
  out.digest = digest({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
  return out;
}

void decide(CaseResult& result, const Capabilities& declared, const std::string& today) {
  switch (result.finding.outcome) {
    case Outcome::passed:
      result.verdict = verdict_of_pass(result, declared, today);
      return;
    case Outcome::failed:
      result.verdict = verdict_of_failure(result, declared, today);
      return;
    case Outcome::skipped:
      result.verdict = Verdict::skipped;
      return;
    case Outcome::unsupported:
      result.verdict = verdict_of_gap(result, declared, today);
      return;
  }
}

std::vector<std::string> audit(const Capabilities& declared, const std::vector<CaseResult>& results,
                               const std::string& today, bool complete) {
  std::vector<std::string> out;
  audit_list(out, "unsupported", declared.file, declared.unsupported, results, today, complete);
  audit_list(out, "expected_failure", declared.file, declared.expected_failures, results, today, complete);
  return out;
}

}  // namespace tenon::conform
