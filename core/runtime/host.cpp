// SPDX-License-Identifier: Apache-2.0
// host.cpp: see host.hpp.
#include "runtime/host.hpp"

#include "base/text.hpp"

#include <tenon/plugin.h>
#include <tenon/version.hpp>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tenon::runtime {
namespace {

Host& host_of(void* context) noexcept { return *static_cast<Host*>(context); }

thread_local Host* opening = nullptr;

// "cpu", "huge-pages" → "TENON_CPU_HUGE_PAGES".
std::string variable_of(std::string_view group, std::string_view key) {
  std::string name = "TENON_" + std::string(group) + "_" + std::string(key);
  for (char& letter : name) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    const bool plain = (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
    if (!plain) letter = '_';
  }
  return name;
}

// What plugins have asked for in this process, whichever host they asked: "cpu.threads".
struct Asked {
  std::mutex mutex{};
  std::set<std::string, std::less<>> keys{};
};

Asked& asked() {
  static Asked& all = *new Asked;  // a plugin may ask while the process ends
  return all;
}

base::Environment environment_for(const RuntimeOptions& options) {
  return options.use_environment ? base::Environment::of_process() : base::Environment(false, {});
}

}  // namespace

Host::Host(const RuntimeOptions& options)
    : sink_(options.log),
      log_([this](LogLevel level, std::string_view component,
                  std::string_view text) { pass_on(level, component, text); },
           options.log_level),
      trace_(options.trace),
      parallel_for_(options.parallel_for),
      options_(options.options.begin(), options.options.end()),
      environment_(environment_for(options)) {
  table_ = tn_host{.header = {.size = sizeof(tn_host), .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR},
                   .min_major = TN_ABI_MAJOR,
                   .min_minor = 0,
                   .reserved = 0,
                   .context = this,
                   .name = "libtenon " TENON_VERSION,
                   .log = write,
                   .log_level = level,
                   .allocate = allocate,
                   .release = release,
                   .option = look_up,
                   .trace = options.trace ? trace : nullptr,
                   .parallel_for = options.parallel_for ? parallel_for : nullptr};
}

Host& Host::make(const RuntimeOptions& options) {
  static std::mutex mutex;
  static std::vector<Host*>& hosts =
      *new std::vector<Host*>;  // reachable for ever, as plugins may hold the table
  const std::lock_guard lock(mutex);
  return *hosts.emplace_back(new Host(options));
}

void Host::pass_on(LogLevel level, std::string_view component, std::string_view text) {
  const std::lock_guard lock(sink_mutex_);
  if (sink_) return sink_(level, component, text);
  base::log_to_stderr(level, component, text);
}

void Host::let_go() noexcept {
  trace_.let_go();
  parallel_for_.let_go();
  LogSink gone;
  const std::lock_guard lock(sink_mutex_);
  std::swap(gone, sink_);
}

std::optional<std::string> Host::option(std::string_view group, std::string_view key) const {
  const auto found = options_.find(std::string(group) + "." + std::string(key));
  if (found != options_.end()) return found->second;
  return environment_.get(variable_of(group, key));
}

std::vector<std::string> Host::misspelt(std::string_view group) {
  const std::string prefix = std::string(group) + ".";
  Asked& all = asked();
  const std::scoped_lock lock(all.mutex, lent_mutex_);
  std::vector<std::string_view> known;
  for (const std::string& key : all.keys)
    if (key.starts_with(prefix)) known.push_back(key);
  std::vector<std::string> out;
  for (const auto& [key, value] : options_) {
    if (!key.starts_with(prefix) || all.keys.contains(key)) continue;
    const std::string meant = base::did_you_mean(key, known);
    if (!meant.empty() && remarked_.insert(key).second)
      out.push_back("option " + base::quoted(key) + " has no effect so far: the plugin did not ask for it" +
                    meant);
  }
  return out;
}

Host::Opening::Opening(Host* host) noexcept : before_(std::exchange(opening, host)) {}
Host::Opening::~Opening() { opening = before_; }

void Host::write(void* context, int32_t level, const char* component, const char* text) noexcept {
  const auto clamped = static_cast<LogLevel>(std::clamp(level, TN_LOG_ERROR, TN_LOG_TRACE));
  host_of(context).log_.write(clamped, component != nullptr ? component : "plugin",
                              text != nullptr ? text : "");
}

int32_t Host::level(void* context) noexcept { return static_cast<int32_t>(host_of(context).log_.level()); }

void* Host::allocate(void*, uint64_t bytes, uint64_t alignment) noexcept {
  const uint64_t unit = std::max<uint64_t>(alignment, alignof(std::max_align_t));
  if ((unit & (unit - 1)) != 0 || bytes > UINT64_MAX - unit) return nullptr;
  return std::aligned_alloc(unit, (std::max<uint64_t>(bytes, 1) + unit - 1) / unit * unit);
}

void Host::release(void*, void* memory, uint64_t, uint64_t) noexcept { std::free(memory); }

const char* Host::look_up(void* context, const char* plugin, const char* key) noexcept {
  if (plugin == nullptr || key == nullptr) return nullptr;
  try {
    Host& host = opening != nullptr ? *opening : host_of(context);
    {
      const std::lock_guard lock(asked().mutex);
      asked().keys.insert(std::string(plugin) + "." + key);
    }
    std::optional<std::string> value = host.option(plugin, key);
    if (!value) return nullptr;
    const std::lock_guard lock(host.lent_mutex_);
    return host.lent_.try_emplace(std::string(plugin) + "." + key, std::move(*value)).first->second.c_str();
  } catch (...) {
    return nullptr;
  }
}

void Host::trace(void* context, int32_t kind, const char* name, uint64_t id, double value) noexcept {
  host_of(context).trace_.call(kind, name != nullptr ? name : "", id, value);
}

void Host::parallel_for(void* context, uint64_t count, uint64_t grain,
                        void (*body)(void* argument, uint64_t begin, uint64_t end), void* argument) noexcept {
  const auto piece = [=](uint64_t begin, uint64_t end) { body(argument, begin, end); };
  if (!host_of(context).parallel_for_.call(count, grain, piece) && count > 0) piece(0, count);
}

}  // namespace tenon::runtime
