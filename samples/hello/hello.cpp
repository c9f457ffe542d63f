// SPDX-License-Identifier: Apache-2.0
// hello: which plugins were found, why others were not taken, and which devices there are.
//
// Invariant: a bad plugin is a line of output, never a failure of this program.
#include <tenon/tenon.hpp>

#include <cstdio>
#include <string>

namespace {

// A plugin without its driver is loaded all the same, and says what is missing.
void print_devices(tenon::Runtime& tenon, const std::string& plugin) {
  const auto devices = tenon.devices(plugin);
  if (!devices.ok()) {
    std::printf("  no device: %s\n", devices.error().message.c_str());
    return;
  }
  for (size_t i = 0; i < devices->size(); ++i) {
    const tn_device_info& info = (*devices)[i];
    std::printf("  %s:%zu  %s, %u compute units, %.1f GB\n", plugin.c_str(), i, info.name, info.compute_units,
                static_cast<double>(info.memory_bytes) / 1e9);
  }
}

tenon::Status hello() {
  auto tenon = TN_TRY(tenon::Runtime::open());
  std::printf("Tenon %s\n", tenon::version());

  for (const tenon::Candidate& candidate : tenon.candidates()) {
    if (candidate.state == tenon::Candidate::State::skipped) {
      std::printf("skipped %s: %s\n", candidate.path.c_str(), candidate.reason.c_str());
      continue;
    }
    std::printf("loaded  %s %s, ABI %s\n", candidate.name.c_str(), candidate.version.c_str(),
                candidate.abi.c_str());
    print_devices(tenon, candidate.name);
  }
  return {};
}

}  // namespace

int main() {
  const tenon::Status status = hello();
  if (!status.ok()) std::fprintf(stderr, "hello: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
