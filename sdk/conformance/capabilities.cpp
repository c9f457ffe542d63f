// SPDX-License-Identifier: Apache-2.0
// capabilities.cpp: reads capabilities.toml strictly and holds it against findings.
#include "conformance/capabilities.hpp"

#include "conformance/digest.hpp"
#include "conformance/ops/row.hpp"
#include "conformance/words.hpp"

#define TOML_HEADER_ONLY 1
#include <fnmatch.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
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
  return Status(TN_INVALID, words(place(file, table), ": '", key,
                                  "' is missing, empty or not a string: write ", key, " = \"…\""));
}

// What an entry is called in a message: "[[unsupported]] 'stream.promise'".
std::string called(const char* list, const toml::table& table) {
  const auto match = table["match"].value<std::string>();
  return words("[[", list, "]]", match ? words(" '", *match, "'") : "");
}

Result<std::string> date_of(const std::string& file, const toml::table& table, const std::string& who) {
  if (const auto date = table["expires"].value<toml::date>()) {
    std::ostringstream out;
    out << *date;
    return std::move(out).str();
  }
  const char* const remedy =
      table.contains("expires")
          ? ": 'expires' is no date: write expires = 2026-12-31, without quotes"
          : " has no 'expires': write the last day on which it may still be so, expires = 2026-12-31";
  return Status(TN_INVALID, words(place(file, table), ": ", who, remedy));
}

// A gap has the date by which it will be closed, or says that it is for good.
Result<std::string> end_of_gap(const std::string& file, const toml::table& table, const std::string& who) {
  const toml::node* const permanent = table.get("permanent");
  if (permanent == nullptr && !table.contains("expires")) {
    return Status(
        TN_INVALID,
        words(place(file, table), ": ", who, " has neither 'expires' nor 'permanent': write expires = ",
              "2026-12-31 for a gap that will be closed, permanent = true for one that never will"));
  }
  if (permanent == nullptr) return date_of(file, table, who);
  if (permanent->value<bool>() != true || table.contains("expires")) {
    const char* const rule = ": 'permanent' is true and stands without 'expires', or is left out";
    return Status(TN_INVALID, words(place(file, *permanent), ": ", who, rule));
  }
  return std::string();
}

Result<Declaration> read_entry(const std::string& file, const toml::table& table, const char* list) {
  const bool gap = std::string_view(list) == "unsupported";
  for (const auto& [key, node] : table) {
    if (key == "match" || key == "reason" || key == "expires" || (gap && key == "permanent")) continue;
    return unknown_key(file, node, key.str(),
                       gap ? "match, reason, expires, permanent" : "match, reason, expires");
  }
  const std::string who = called(list, table);
  Declaration out;
  out.match = TN_TRY(text_of(file, table, "match"));
  out.reason = TN_TRY(text_of(file, table, "reason"));
  out.expires = TN_TRY(gap ? end_of_gap(file, table, who) : date_of(file, table, who));
  return out;
}

// Entries of a list, each read by `read`.
template <class Entry, class Read>
Status read_each(const std::string& file, const toml::table& root, const char* key, std::vector<Entry>& out,
                 const Read& read) {
  const toml::node* list = root.get(key);
  if (list == nullptr) return {};
  if (list->as_array() == nullptr) {
    return Status(TN_INVALID, words(place(file, *list), ": '", key, "' is no list of tables: write [[", key,
                                    "]] above each entry"));
  }
  for (const toml::node& entry : *list->as_array()) {
    const toml::table* table = entry.as_table();
    if (table == nullptr)
      return Status(TN_INVALID, words(place(file, entry), ": an entry of '", key, "' is no table: write [[",
                                      key, "]] above each entry"));
    out.push_back(TN_TRY(read(*table)));
  }
  return {};
}

// `factor` or `ulp`: one of them, and more than what holds without it.
Result<Slack> slack_of(const std::string& file, const toml::table& table, const Row& row) {
  const auto factor = table["factor"].value<double>(), ulps = table["ulp"].value<double>();
  const auto wrong = [&](const auto&... what) {
    return Status(TN_INVALID, words(place(file, table), ": ", what...));
  };
  if (table.contains("factor") == table.contains("ulp"))
    return wrong("a tolerance has 'factor' (times the usual) or 'ulp', one of them");
  if (ulps && *ulps > 0 && std::isfinite(*ulps)) return Slack{.factor = 1, .ulps = *ulps};
  if (table.contains("ulp")) return wrong("'ulp' is no number above 0");
  if (row.tolerance == Tolerance::EXACT)
    return wrong("op '", row.name, "' is exact, and a multiple of nothing is nothing: write 'ulp'");
  if (factor && *factor > 1 && std::isfinite(*factor)) return Slack{.factor = *factor, .ulps = 0};
  return wrong("'factor' is no number above 1");
}

Result<DeclaredTolerance> read_tolerance(const std::string& file, const toml::table& table) {
  static constexpr std::string_view known[] = {"op", "dtype", "factor", "ulp", "reason", "expires"};
  for (const auto& [key, node] : table) {
    if (std::find(std::begin(known), std::end(known), key.str()) == std::end(known))
      return unknown_key(file, node, key.str(), "op, dtype, factor, ulp, reason, expires");
  }
  DeclaredTolerance out;
  out.op = TN_TRY(text_of(file, table, "op"));
  out.dtype = TN_TRY(text_of(file, table, "dtype"));
  out.reason = TN_TRY(text_of(file, table, "reason"));
  out.expires = TN_TRY(date_of(file, table, words("[[tolerance]] of op '", out.op, "'")));
  const Row* const row = find_row(std::string_view(out.op));
  if (row == nullptr || !is_single(*row))
    return Status(TN_INVALID,
                  words(place(file, table), ": '", out.op, "' is no op of ops.def that has cases"));
  const uint32_t dtype = find_dtype(out.dtype);
  const std::vector<uint32_t> types = subjects(*row);
  if (!author::is_float(dtype) || std::find(types.begin(), types.end(), dtype) == types.end()) {
    return Status(TN_INVALID, words(place(file, table), ": op '", out.op, "' has no case of dtype '",
                                    out.dtype, "', or one that is no float"));
  }
  out.slack = TN_TRY(slack_of(file, table, *row));
  return out;
}

Result<Determinism> determinism_of(const std::string& file, const toml::table& plugin) {
  if (!plugin.contains("determinism")) return Determinism::undeclared;
  const std::string word = TN_TRY(text_of(file, plugin, "determinism"));
  for (const Determinism one : {Determinism::bitwise, Determinism::varies}) {
    if (word == name(one)) return one;
  }
  return Status(TN_INVALID, words(place(file, *plugin.get("determinism")), ": 'determinism' is '", word,
                                  "': it must be bitwise or varies"));
}

Result<Faults> faults_of(const std::string& file, const toml::table& root) {
  Faults out;
  const toml::node* const node = root.get("faults");
  if (node == nullptr) return out;
  if (node->as_table() == nullptr)
    return Status(TN_INVALID, words(place(file, *node), ": write [faults], one table"));
  for (const auto& [name, order] : *node->as_table())
    TN_TRY(add_fault(out, place(file, order), name.str(), order.value_or<std::string>({})));
  return out;
}

Status refuse_twice(const Capabilities& out) {
  for (size_t i = 0; i < out.tolerances.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const DeclaredTolerance &one = out.tolerances[i], &other = out.tolerances[j];
      if (one.op == other.op && one.dtype == other.dtype)
        return Status(TN_INVALID, words(out.file, ": [[tolerance]] of op '", one.op, "' in ", one.dtype,
                                        " is there twice: keep one"));
    }
  }
  return {};
}

Result<Capabilities> read_root(const std::string& file, const toml::table& root) {
  for (const auto& [key, node] : root) {
    if (key == "plugin" || key == "unsupported" || key == "expected_failure" || key == "tolerance" ||
        key == "faults")
      continue;
    return unknown_key(file, node, key.str(),
                       "[plugin], [faults], [[unsupported]], [[expected_failure]], [[tolerance]]");
  }
  const toml::table* plugin = root["plugin"].as_table();
  if (plugin == nullptr)
    return Status(TN_INVALID,
                  words(file,
                        ": the table [plugin] is missing: write [plugin] and under it name = \"…\", "
                        "the plugin's name"));
  for (const auto& [key, node] : *plugin) {
    if (key != "name" && key != "determinism") return unknown_key(file, node, key.str(), "name, determinism");
  }
  Capabilities out;
  out.file = file;
  out.plugin = TN_TRY(text_of(file, *plugin, "name"));
  out.determinism = TN_TRY(determinism_of(file, *plugin));
  TN_TRY(read_each(file, root, "unsupported", out.unsupported,
                   [&](const toml::table& table) { return read_entry(file, table, "unsupported"); }));
  TN_TRY(read_each(file, root, "expected_failure", out.expected_failures,
                   [&](const toml::table& table) { return read_entry(file, table, "expected_failure"); }));
  TN_TRY(read_each(file, root, "tolerance", out.tolerances,
                   [&](const toml::table& table) { return read_tolerance(file, table); }));
  out.faults = TN_TRY(faults_of(file, root));
  TN_TRY(refuse_twice(out));
  return out;
}

bool matches(const Declaration& entry, const CaseResult& result) {
  return glob(entry.match, result.name) ||
         (!result.finding.tag.empty() && glob(entry.match, result.finding.tag));
}

bool past(const std::string& expires, const std::string& today) {
  return !expires.empty() && today > expires;
}
bool expired(const Declaration& entry, const std::string& today) { return past(entry.expires, today); }

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

std::string who(const Capabilities& declared, const DeclaredTolerance& entry) {
  return words(declared.file, ": [[tolerance]] of op '", entry.op, "' in ", entry.dtype);
}

void audit_tolerances(std::vector<std::string>& out, const Capabilities& declared,
                      const std::vector<CaseResult>& results, const std::string& today, bool complete) {
  for (const ToleranceUse& use : tolerance_uses(declared, results, today)) {
    if (use.expired) {
      out.push_back(words(who(declared, *use.declared), " expired on ", use.declared->expires,
                          ": mend the plugin, or argue for another date (", use.declared->reason, ")"));
    } else if (complete && use.cases == 0) {
      out.push_back(
          words(who(declared, *use.declared), " excuses nothing: no such case was executed: take it out"));
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
    return Status(TN_INVALID,
                  words(file, ":", error.source().begin.line, ": this is no TOML: ", error.description()));
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
  audit_tolerances(out, declared, results, today, complete);
  return out;
}

Judging judging_of(const Capabilities& declared, const std::string& today) {
  Judging out{.slack = {}, .determinism = declared.determinism, .faults = declared.faults};
  for (const DeclaredTolerance& entry : declared.tolerances) {
    if (!past(entry.expires, today)) out.slack[entry.op + "." + entry.dtype] = entry.slack;
  }
  return out;
}

std::vector<ToleranceUse> tolerance_uses(const Capabilities& declared, const std::vector<CaseResult>& results,
                                         const std::string& today) {
  std::vector<ToleranceUse> out;
  for (const DeclaredTolerance& entry : declared.tolerances) {
    ToleranceUse& use =
        out.emplace_back(ToleranceUse{.declared = &entry, .expired = past(entry.expires, today)});
    for (const CaseResult& result : results) {
      if (result.op != entry.op || result.dtype != entry.dtype) continue;
      const Outcome outcome = result.finding.outcome;
      if (outcome == Outcome::passed || outcome == Outcome::failed) ++use.cases;
      if (outcome == Outcome::failed) ++use.failed;
      if (!result.finding.eased.empty()) ++use.needed;
    }
  }
  return out;
}

std::vector<std::string> idle_tolerances(const Capabilities& declared, const std::vector<CaseResult>& results,
                                         const std::string& today) {
  std::vector<std::string> out;
  for (const ToleranceUse& use : tolerance_uses(declared, results, today)) {
    if (use.expired || use.cases == 0 || use.needed != 0 || use.failed != 0) continue;
    out.push_back(words(who(declared, *use.declared), ": ", use.cases,
                        use.cases == 1 ? " case was" : " cases were",
                        " executed, and none needed it: try other seeds, and then take it out"));
  }
  return out;
}

std::string told(const Slack& slack) {
  return slack.ulps > 0 ? words(slack.ulps, " ULP") : words(slack.factor, " times the usual");
}

}  // namespace tenon::conform
