// SPDX-License-Identifier: Apache-2.0
// registry.cpp: see registry.hpp. Each library passes the same gates, cheap and harmless ones first; the first gate that
// refuses gives the reason.
#include "plugin/registry.hpp"

#include "base/elf.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "plugin/open.hpp"
#include "plugin/probe.hpp"
#include "plugin/trust.hpp"

#include <algorithm>
#include <map>
#include <mutex>

namespace tenon::plugin {
namespace {

class Loader {
 public:
  Loader(const RuntimeOptions& options, const tn_host& host, const Surroundings& surroundings)
      : options_(options), host_(host), surroundings_(surroundings) {
    auto settings = probe_settings(options, surroundings.environment);
    if (settings.ok()) {
      probe_ = std::move(settings).take();
    } else {
      log(LogLevel::warn, std::string(settings.message()) + "; the defaults are used");
      RuntimeOptions defaults;
      defaults.probe = options.probe;
      if (auto again = probe_settings(defaults, surroundings.environment); again.ok())
        probe_ = std::move(again).take();
    }
  }

  Registry run() {
    Findings findings = search(options_, surroundings_);
    registry_.folders = std::move(findings.folders);
    for (const Find& find : findings.files) consider(find);
    tell_collectives();
    return std::move(registry_);
  }

 private:
  void consider(const Find& find) {
    Candidate candidate = describe(find);
    if (is_known_already(candidate)) return;
    std::unique_ptr<Tables> tables;
    const Status verdict = judge(find, candidate, tables);
    if (verdict.ok()) {
      candidate.state = Candidate::State::loaded;
      fill_in(*tables, candidate);
      auto plugin = std::make_unique<Loaded>();
      *plugin = {candidate.name, std::move(tables), registry_.candidates.size()};
      registry_.loaded.push_back(std::move(plugin));
    } else {
      candidate.reason = verdict.message();
    }
    report(candidate);
    registry_.candidates.push_back(std::move(candidate));
  }

  static Candidate describe(const Find& find) {
    Candidate candidate{.name = base::stem_of(find.path), .path = find.path, .warnings = find.warnings};
    if (candidate.name.starts_with("tenon-")) candidate.name.erase(0, 6);
    if (find.manifest) {
      candidate.name = find.manifest->name;
      candidate.vendor = find.manifest->vendor;
      candidate.version = find.manifest->version;
      candidate.license = find.manifest->license;
    }
    if (!base::is_absolute(find.path)) return candidate;
    if (auto real = base::real_path(find.path); real.ok()) candidate.real_path = std::move(real).take();
    return candidate;
  }

  // One file is judged once, by whatever names and links it is found. Being found in a bad place is not a judgement.
  bool is_known_already(const Candidate& candidate) {
    const auto earlier = judged_.find(candidate.real_path);
    if (earlier == judged_.end()) return false;
    Candidate& first = registry_.candidates[earlier->second];
    if (first.path != candidate.path) {
      first.warnings.push_back("the same file is found as " + candidate.path + ": it is considered once");
    }
    return true;
  }

  Status judge(const Find& find, Candidate& candidate, std::unique_ptr<Tables>& tables) {
    if (!find.refusal.empty()) return Status(TN_INVALID, find.refusal);
    const bool elevated = surroundings_.environment.elevated();
    TN_TRY(check_trusted_file(candidate.path, candidate.real_path, elevated));
    if (find.manifest) {
      TN_TRY(check_writers(find.manifest->path, "manifest", elevated));
      TN_TRY(check_suits(*find.manifest, range_of(host_)));
      TN_TRY(check_name_is_free(find.manifest->name));
    }
    judged_.emplace(candidate.real_path, registry_.candidates.size());
    TN_TRY(check_file(candidate));
    const std::string name = find.manifest ? find.manifest->name : "";
    TN_TRY(try_first(name, candidate));
    // Entries are called one at a time, whatever number of threads search at once.
    static std::mutex entering;
    const std::lock_guard lock(entering);
    tables = TN_TRY(open_plugin(candidate.real_path, name, host_));
    return check_name_is_free(tables->descriptor.name);
  }

  // The first of a name in search order wins; where it was skipped, the next one has its chance.
  Status check_name_is_free(std::string_view name) const {
    const auto same = [&](const auto& plugin) { return plugin->name == name; };
    const auto first = std::find_if(registry_.loaded.begin(), registry_.loaded.end(), same);
    if (first == registry_.loaded.end()) return {};
    return Status(TN_INVALID, "a plugin called " + base::quoted(name, 64) + " is already loaded from " +
                                  registry_.candidates[(*first)->candidate].path +
                                  ", which comes first in the search order: remove one of the two");
  }

  Status check_file(Candidate& candidate) const {
    const Status whole = base::check_library_file(candidate.real_path);
    if (!whole.ok())
      return Status(whole.code(), base::name_of(candidate.path) + " " + std::string(whole.message()));
    candidate.digest = base::hex(TN_TRY(base::file_digest(candidate.real_path)));
    return {};
  }

  Status try_first(const std::string& name, Candidate& candidate) const {
    Verdict verdict = probe({candidate.real_path, candidate.digest, name, range_of(host_)}, probe_);
    candidate.probe = verdict.how;
    std::move(verdict.warnings.begin(), verdict.warnings.end(), std::back_inserter(candidate.warnings));
    return std::move(verdict.status);
  }

  static void fill_in(const Tables& tables, Candidate& candidate) {
    const tn_plugin& plugin = tables.descriptor;
    candidate.name = plugin.name;
    if (candidate.vendor.empty()) candidate.vendor = plugin.vendor;
    if (!candidate.version.empty() && candidate.version != plugin.version) {
      candidate.warnings.push_back("its manifest says version " + candidate.version + ", the library says " +
                                   plugin.version + ": install the manifest that belongs to it");
    }
    candidate.version = plugin.version;
    candidate.abi = to_text(AbiVersion{plugin.header.major, plugin.header.minor});
    candidate.features = feature_names(plugin.features);
    candidate.emulated = tables.emulated;
  }

  // Who carries a plugin's collectives is known only once all are loaded.
  void tell_collectives() {
    const Loaded* carrier = carrier_of(registry_);
    const std::string words = carrier == nullptr
                                  ? "collectives: none (no loaded plugin can carry them: load cpu)"
                                  : "collectives: host-staged through " + carrier->name;
    for (const auto& plugin : registry_.loaded) {
      if (plugin->tables->has_comm) continue;
      plugin->tables->emulated.push_back(words);
      registry_.candidates[plugin->candidate].emulated.push_back(words);
    }
  }

  void report(const Candidate& candidate) const {
    const bool loaded = candidate.state == Candidate::State::loaded;
    log(LogLevel::info,
        (loaded ? "loaded " : "skipped ") + candidate.path + (loaded ? "" : ": " + candidate.reason));
    for (const std::string& warning : candidate.warnings)
      log(LogLevel::info, candidate.path + ": " + warning);
  }

  void log(LogLevel level, const std::string& text) const {
    if (host_.log != nullptr) host_.log(host_.context, static_cast<int32_t>(level), "plugin", text.c_str());
  }

  const RuntimeOptions& options_;
  const tn_host& host_;
  const Surroundings& surroundings_;
  ProbeSettings probe_;
  Registry registry_;
  std::map<std::string, size_t> judged_;  // real path → candidate
};

}  // namespace

const Loaded* carrier_of(const Registry& registry) noexcept {
  for (const auto& plugin : registry.loaded) {
    const bool host_memory = (plugin->tables->descriptor.features & TN_FEATURE_HOST_MEMORY) != 0;
    if (plugin->tables->has_comm && host_memory) return plugin.get();
  }
  return nullptr;
}

Status check_options(const RuntimeOptions& options) {
  TN_TRY(probe_settings(options, base::Environment::of_process()));
  return {};
}

Registry load_all(const RuntimeOptions& options, const tn_host& host, const Surroundings& surroundings) {
  return Loader(options, host, surroundings).run();
}

Registry load_all(const RuntimeOptions& options, const tn_host& host) {
  return load_all(options, host, Surroundings::of_process());
}

}  // namespace tenon::plugin
