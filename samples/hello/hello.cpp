// SPDX-License-Identifier: Apache-2.0
// hello: which plugins were found, why others were not taken, and which devices there are.
//
// Invariant: a bad plugin is a line of output, never a failure of this program.
#include <tenon/tenon.hpp>

#include <cstdio>

namespace {

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
    const auto devices = TN_TRY(tenon.devices(candidate.name));
    for (size_t i = 0; i < devices.size(); ++i) {
      std::printf("  %s:%zu  %s, %u compute units, %.1f GB\n", candidate.name.c_str(), i, devices[i].name,
                  devices[i].compute_units, static_cast<double>(devices[i].memory_bytes) / 1e9);
    }
  }
  return {};
}

}  // namespace

int main() {
  const tenon::Status status = hello();
  if (!status.ok()) std::fprintf(stderr, "hello: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
