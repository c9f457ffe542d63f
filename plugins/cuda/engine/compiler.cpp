// SPDX-License-Identifier: Apache-2.0
// compiler.cpp: one compilation, or the memory of one.
#include "compiler.hpp"

namespace tenon::cuda {

Compiler::Compiler(author::Host host, const Folder& folder) : host_(host), folder_(folder) {
  if (const char* const keep = host.option("keep")) keep_ = keep;
}

Result<const Nvrtc*> Compiler::nvrtc(int driver_version) const {
  return Nvrtc::open(driver_version, host_.option("nvrtc"));
}

Result<Bundle> Compiler::expect(std::string source, uint32_t sm, int driver_version) const {
  const Nvrtc* const nvrtc = TN_TRY(this->nvrtc(driver_version));
  return Bundle{.sm = sm,
                .maker = "NVRTC",
                .version = static_cast<uint32_t>(nvrtc->version()),
                .driver = static_cast<uint32_t>(driver_version),
                .source = std::move(source)};
}

Result<Bundle> Compiler::compile(std::string source, uint32_t sm, int driver_version) const {
  Bundle bundle = TN_TRY(expect(std::move(source), sm, driver_version));
  if (bundle.source.empty()) return bundle;
  const std::string name = bundle.key() + ".cu";
  if (!keep_.empty()) write_file(keep_ / name, bundle.source);
  if (bundle.recall(folder_)) return bundle;
  bundle.image = TN_TRY(TN_TRY(nvrtc(driver_version))->compile(bundle.source, name.c_str(), sm));
  bundle.remember(folder_);
  return bundle;
}

}  // namespace tenon::cuda
