// SPDX-License-Identifier: Apache-2.0
// options.cpp: see options.hpp.
#include "runtime/options.hpp"

#include "base/host.hpp"
#include "base/launcher.hpp"
#include "base/text.hpp"
#include "layers/layer.hpp"

#include <array>
#include <charconv>

namespace tenon::runtime {
namespace {

constexpr std::array<std::string_view, 1> pool_keys{"reserve_fraction"};

Status check_key(const std::string& key) {
  const size_t dot = key.find('.');
  if (dot == 0 || dot == std::string::npos || dot + 1 == key.size())
    return Status(TN_INVALID,
                  "option " + base::quoted(key) + " has no group: write 'PLUGIN.KEY', as in 'cpu.threads'");
  if (key.substr(0, dot) != "pool") return {};
  const std::string_view name = std::string_view(key).substr(dot + 1);
  for (const std::string_view known : pool_keys)
    if (name == known) return {};
  return Status(TN_INVALID, "the pool has no option " + base::quoted(name) +
                                base::did_you_mean(name, pool_keys) + ": there is reserve_fraction");
}

Result<double> read_fraction(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem == std::errc() && stop == end && value > 0 && value <= 1) return value;
  return Status(TN_INVALID, "option 'pool.reserve_fraction' is " + base::quoted(text) +
                                ": give a number above 0 and at most 1, as in '0.9'");
}

// This process's rank in its job; alone it is the first.
std::string rank_in(const base::Environment& environment) {
  const base::Launcher* const launcher =
      base::launcher_in([&](std::string_view name) { return environment.get(name); });
  return launcher != nullptr ? environment.get(launcher->rank).value_or("0") : "0";
}

// One text for all processes of a job names another file for each: "%r" is its rank, "%p" its number, "%%" a "%".
std::string filled_in(std::string_view text, const base::Environment& environment) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : '\0';
    const bool known = next == 'r' || next == 'p' || next == '%';
    if (next == 'r') out += rank_in(environment);
    if (next == 'p') out += std::to_string(base::process_id());
    if (next == '%' || !known) out += text[i];
    i += known ? 1 : 0;
  }
  return out;
}

}  // namespace

Result<OwnOptions> read_options(const RuntimeOptions& options, const Host& host) {
  for (const auto& [key, value] : options.options) TN_TRY(check_key(key));
  OwnOptions own;
  if (const auto text = host.option("pool", "reserve_fraction"))
    own.reserve_fraction = TN_TRY(read_fraction(*text));
  own.layers = options.layers;
  if (const auto text = host.environment().get("TENON_LAYERS"))
    for (const std::string& spec : layers::split_specs(*text))
      own.layers.push_back(filled_in(spec, host.environment()));
  return own;
}

}  // namespace tenon::runtime
