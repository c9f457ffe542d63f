// SPDX-License-Identifier: Apache-2.0
// names.cpp: from "cpu:1" or "best" to a device.
//
// Invariant: a name that leads nowhere is answered with everything that would: the devices there are, and why each
// skipped plugin was skipped.
#include "base/text.hpp"
#include "runtime/runtime_state.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tenon::runtime {
namespace {

std::string device_name(const detail::Offer& offer, size_t ordinal) {
  return offer.loaded->name + ":" + std::to_string(ordinal);
}

std::string what_there_is(const detail::RuntimeState& state) {
  std::vector<std::string> parts;
  for (const detail::Offer& offer : state.offers) {
    const auto infos = infos_of(offer);
    if (!infos.ok()) {
      parts.push_back("plugin '" + offer.loaded->name +
                      "' cannot list its devices: " + infos.error().message);
      continue;
    }
    if (infos->empty()) parts.push_back("plugin '" + offer.loaded->name + "' has no device");
    for (size_t i = 0; i < infos->size(); ++i)
      parts.push_back(device_name(offer, i) + " (" + base::printable((*infos)[i].name) + ")");
  }
  for (const Candidate& candidate : state.registry.candidates)
    if (candidate.state == Candidate::State::skipped)
      parts.push_back("'" + candidate.name + "' was skipped: " + candidate.reason);
  if (parts.empty()) return "no plugin was found: set TENON_PLUGIN_PATH, or see `tenon doctor`";
  return "there is: " + base::join(parts, "; ");
}

Status not_found(const detail::RuntimeState& state, std::string_view name, const std::string& why) {
  return Status(TN_NOT_FOUND, "device " + base::quoted(name) + ": " + why + "; " + what_there_is(state));
}

// GPU, NPU, other, CPU.
int rank_of(uint32_t kind) noexcept {
  switch (kind) {
    case TN_DEVICE_GPU:
      return 0;
    case TN_DEVICE_NPU:
      return 1;
    case TN_DEVICE_CPU:
      return 3;
    default:
      return 2;
  }
}

Result<Choice> best(const detail::RuntimeState& state) {
  std::optional<Choice> found;
  int rank = 0;
  for (const detail::Offer& offer : state.offers) {
    const auto infos = infos_of(offer);
    if (!infos.ok()) continue;
    for (size_t i = 0; i < infos->size(); ++i) {
      const int here = rank_of((*infos)[i].kind);
      if (found && here >= rank) continue;
      found = Choice{&offer, static_cast<uint32_t>(i)};
      rank = here;
    }
  }
  if (!found) return not_found(state, "best", "no plugin has a device");
  return *found;
}

}  // namespace

Result<std::vector<tn_device_info>> infos_of(const detail::Offer& offer) {
  const tn_device_api& api = *offer.descriptor->device;
  tn_error error = no_error();
  uint32_t count = 0;
  TN_TRY(status_of(api.count(offer.descriptor, &count, &error), error));
  constexpr uint32_t most_devices = 4096;
  if (count > most_devices)
    return Status(TN_INTERNAL, "plugin '" + offer.loaded->name + "' counts " + std::to_string(count) +
                                   " devices, and " + std::to_string(most_devices) +
                                   " are the most that are believed: mend its device.count");
  std::vector<tn_device_info> infos(count);
  for (uint32_t i = 0; i < count; ++i) {
    infos[i].size = sizeof(tn_device_info);
    TN_TRY(status_of(api.info(offer.descriptor, i, &infos[i], &error), error));
  }
  return infos;
}

Result<const detail::Offer*> offer_of(const detail::RuntimeState& state, std::string_view plugin) {
  for (const detail::Offer& offer : state.offers)
    if (offer.loaded->name == plugin) return &offer;
  std::vector<std::string_view> names;
  for (const detail::Offer& offer : state.offers) names.push_back(offer.loaded->name);
  return not_found(state, plugin, "no plugin of that name is loaded" + base::did_you_mean(plugin, names));
}

Result<Choice> choose(const detail::RuntimeState& state, std::string_view name) {
  if (name == "best") return best(state);
  const size_t colon = name.rfind(':');
  uint32_t ordinal = 0;
  if (colon != std::string_view::npos) {
    const std::string_view number = name.substr(colon + 1);
    const auto [stop, problem] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
    if (number.empty() || problem != std::errc() || stop != number.data() + number.size())
      return not_found(state, name, "what follows ':' is not a device number");
  }
  const auto offer = offer_of(state, name.substr(0, colon));
  if (!offer.ok()) return Status(offer.error());
  tn_error error = no_error();
  uint32_t count = 0;
  TN_TRY(status_of((*offer)->descriptor->device->count((*offer)->descriptor, &count, &error), error));
  if (ordinal < count) return Choice{*offer, ordinal};
  return not_found(state, name,
                   "plugin '" + (*offer)->loaded->name + "' has " + base::counted(count, "device"));
}

}  // namespace tenon::runtime
