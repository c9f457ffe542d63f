// SPDX-License-Identifier: Apache-2.0
// nvrtc.cpp: finding NVRTC, and one compilation.
#include "nvrtc.hpp"

#include <tenon/author/text.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <memory>

namespace tenon::cuda {

using author::text;

namespace {

constexpr int newest_major = 13;

// The driver's own major version first: what another one makes it may not take.
std::vector<std::string> usual_places(int driver_major) {
  std::vector<int> majors{std::clamp(driver_major, Nvrtc::oldest_major, newest_major)};
  for (int major = newest_major; major >= Nvrtc::oldest_major; --major)
    if (major != majors.front()) majors.push_back(major);
  std::vector<std::string> out;
  for (const int major : majors) {
    out.push_back(text("libnvrtc.so.", major));
    out.push_back(text("/usr/local/cuda/lib64/libnvrtc.so.", major));
  }
  return out;
}

// --fmad=false: an op rounds as ops.def says, so a group of ops gives the same bits as the ops one by one.
constexpr const char* common_options[] = {"--std=c++17", "--fmad=false"};

}  // namespace

Result<const Nvrtc*> Nvrtc::open(int driver_version, const char* path) {
  static const Result<const Nvrtc*> answer = start(driver_version, path);
  if (!answer.ok()) return Status(answer.error());
  return *answer;
}

Result<const Nvrtc*> Nvrtc::start(int driver_version, const char* path) {
  auto made = std::make_unique<Nvrtc>();
  const auto places = path != nullptr ? std::vector<std::string>{path} : usual_places(driver_version / 1000);
  std::string tried;
  for (const std::string& place : places) {
    const Status loaded = made->load(place);
    if (loaded.ok()) {
      TN_TRY(made->read_version());
      return static_cast<const Nvrtc*>(made.release());
    }
    tried += text(tried.empty() ? "" : ", ", loaded.message());
  }
  return Status(TN_NOT_FOUND, text("NVRTC is missing, and kernels are compiled with it: install cuda-nvrtc-",
                                   std::max(driver_version / 1000, oldest_major),
                                   "-*, or name it with the option cuda.nvrtc (tried ", tried, ")"));
}

Status Nvrtc::load(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status(TN_NOT_FOUND, file);
#define TN_NVRTC_SYMBOL(function)                                                \
  function = reinterpret_cast<decltype(&::function)>(dlsym(library, #function)); \
  if (function == nullptr) return Status(TN_VERSION, text(file, " (lacks " #function ")"));
#include "nvrtc_symbols.def"
  return {};
}

Status Nvrtc::failed(nvrtcResult result, const char* call) const {
  return Status(Error{.code = result == NVRTC_ERROR_OUT_OF_MEMORY ? TN_NO_MEMORY : TN_INTERNAL,
                      .message = text(call, " gives ", nvrtcGetErrorString(result)),
                      .domain = "nvrtc",
                      .native_code = result});
}

Status Nvrtc::read_version() {
  int major = 0, minor = 0, count = 0;
  if (const auto result = nvrtcVersion(&major, &minor)) return failed(result, "nvrtcVersion");
  version_ = major * 100 + minor;
  if (const auto result = nvrtcGetNumSupportedArchs(&count))
    return failed(result, "nvrtcGetNumSupportedArchs");
  chips_.resize(static_cast<size_t>(count));
  if (const auto result = nvrtcGetSupportedArchs(chips_.data()))
    return failed(result, "nvrtcGetSupportedArchs");
  std::sort(chips_.begin(), chips_.end());
  return {};
}

Status Nvrtc::build(nvrtcProgram program, const std::vector<const char*>& options) const {
  const auto result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  if (result == NVRTC_SUCCESS) return {};
  size_t bytes = 0;
  std::string log;
  if (nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS) {
    log.resize(bytes);
    nvrtcGetProgramLog(program, log.data());
  }
  Status story = failed(result, "nvrtcCompileProgram");
  return Status(
      Error{.code = story.code(),
            .message = text(story.message(), ": this is a defect of the plugin; the log says: ", log.c_str()),
            .domain = "nvrtc",
            .native_code = story.error().native_code});
}

Result<std::string> Nvrtc::compile(const std::string& source, const char* name, uint32_t sm) const {
  const bool known = std::binary_search(chips_.begin(), chips_.end(), static_cast<int>(sm));
  const auto newer = std::upper_bound(chips_.begin(), chips_.end(), static_cast<int>(sm));
  if (!known && newer == chips_.begin())
    return Status(TN_UNSUPPORTED,
                  text("NVRTC ", version_ / 100, ".", version_ % 100, " knows no chip as old as sm_", sm));
  const std::string chip =
      known ? text("--gpu-architecture=sm_", sm) : text("--gpu-architecture=compute_", *std::prev(newer));
  std::vector<const char*> options(std::begin(common_options), std::end(common_options));
  options.push_back(chip.c_str());

  nvrtcProgram program = nullptr;
  if (const auto result = nvrtcCreateProgram(&program, source.c_str(), name, 0, nullptr, nullptr))
    return failed(result, "nvrtcCreateProgram");
  const auto end = [this](nvrtcProgram p) { nvrtcDestroyProgram(&p); };
  const std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, decltype(end)> owner(program, end);
  TN_TRY(build(program, options));

  size_t bytes = 0;
  if (const auto result = known ? nvrtcGetCUBINSize(program, &bytes) : nvrtcGetPTXSize(program, &bytes))
    return failed(result, "the size of what NVRTC made");
  std::string image(bytes, '\0');
  if (const auto result = known ? nvrtcGetCUBIN(program, image.data()) : nvrtcGetPTX(program, image.data()))
    return failed(result, "what NVRTC made");
  return image;
}

}  // namespace tenon::cuda
