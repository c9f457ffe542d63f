// SPDX-License-Identifier: Apache-2.0
// nvrtc.cpp: libnvrtc.so for tests: the same calls, and a "cubin" that is a shared object of the host.
//
// The source is compiled by the host's compiler with cuda_on_host.hpp before it, in a folder of its own that is gone
// afterwards. The options are checked as the real one checks them.
// Invariant: nothing is kept from one program to the next, so what is fast is fast in the plugin, not here.
#include "spawn.hpp"

#include <nvrtc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

struct _nvrtcProgram {
  std::string source{};
  std::string log{};
  std::string image{};  // for sm_90
  std::string ptx{};    // for compute_90, in place of an image
};

namespace {

// Each with a comma after it.
constexpr const char* own_flags[] = {FAKECUDA_COMPILER_FLAGS nullptr};

constexpr int known_archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

// Options that change nothing in a compilation for the host.
constexpr std::string_view plain[] = {"--device-as-default-execution-space",
                                      "-default-device",
                                      "--generate-line-info",
                                      "-lineinfo",
                                      "--extra-device-vectorization",
                                      "-extra-device-vectorization",
                                      "--restrict",
                                      "-restrict",
                                      "--disable-warnings",
                                      "-w",
                                      "--no-source-include",
                                      "-no-source-include",
                                      "--minimal",
                                      "-minimal",
                                      "--device-debug",
                                      "-G",
                                      "--use_fast_math",
                                      "-use_fast_math"};
constexpr std::string_view with_truth[] = {"--fmad",     "-fmad",     "--ftz",       "-ftz",
                                           "--prec-div", "-prec-div", "--prec-sqrt", "-prec-sqrt"};
constexpr std::string_view with_value[] = {"--maxrregcount",  "-maxrregcount",   "--split-compile",
                                           "-split-compile",  "--ptxas-options", "-Xptxas",
                                           "--diag-suppress", "-diag-suppress"};

// What the options come to.
struct Wish {
  int arch = 52;
  bool real_code = false;  // sm_90, not compute_90
  std::vector<std::string> flags{};
};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool take_arch(Wish& wish, std::string value) {
  wish.real_code = value.starts_with("sm_");
  if (!wish.real_code && !value.starts_with("compute_")) return false;
  if (value.ends_with('a') || value.ends_with('f')) value.pop_back();
  wish.arch = std::atoi(value.c_str() + value.find('_') + 1);
  return std::find(std::begin(known_archs), std::end(known_archs), wish.arch) != std::end(known_archs);
}

bool take_standard(Wish& wish, const std::string& value) {
  if (value != "c++17" && value != "c++20") return false;
  wish.flags.push_back("-std=" + value);
  return true;
}

// Whether an option is written with a value, after '=' or as the next word.
bool has_value(std::string_view name) {
  constexpr std::string_view others[] = {"--gpu-architecture", "-arch", "--std", "-std", "--define-macro"};
  return contains(with_truth, name) || contains(with_value, name) || contains(others, name);
}

bool take_value(Wish& wish, std::string_view name, const std::string& value) {
  if (name == "--gpu-architecture" || name == "-arch") return take_arch(wish, value);
  if (name == "--std" || name == "-std") return take_standard(wish, value);
  if (name == "--define-macro") wish.flags.push_back("-D" + value);
  if (contains(with_truth, name)) return value == "true" || value == "false";
  return !value.empty();
}

// The option that is not understood, or "".
std::string take_options(Wish& wish, int count, const char* const* options) {
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i] != nullptr ? options[i] : "";
    const size_t equals = std::min(option.find('='), option.size());
    const std::string name = option.substr(0, equals);
    if (has_value(name)) {
      std::string value = equals < option.size() ? option.substr(equals + 1) : "";
      if (equals == option.size() && i + 1 < count) value = options[++i];
      if (!take_value(wish, name, value)) return option;
    } else if (option.starts_with("-D") && option.size() > 2) {
      wish.flags.push_back(option);
    } else if (!contains(plain, option)) {
      return option.empty() ? "an empty one" : option;
    }
  }
  return {};
}

std::vector<std::string> command(const Wish& wish, const std::string& folder) {
  std::vector<std::string> out{FAKECUDA_COMPILER,
                               "-x",
                               "c++",
                               "-std=c++20",
                               "-O1",
                               "-w",
                               "-pipe",
                               "-fPIC",
                               "-shared",
                               "-nostdlib",
                               "-nostdinc",
                               "-fno-exceptions",
                               "-fno-rtti",
                               "-fvisibility=hidden",
                               "-fno-asynchronous-unwind-tables",
                               "-fno-math-errno",
                               "-ffp-contract=off",
                               "-fwrapv",
                               "-fno-strict-aliasing"};
  for (const char* flag : own_flags)
    if (flag != nullptr) out.emplace_back(flag);
  out.insert(out.end(), wish.flags.begin(), wish.flags.end());
  out.push_back("-DFAKECUDA_ARCH=" + std::to_string(wish.arch));
  out.insert(out.end(), {"-include", FAKECUDA_SHIM, folder + "/source.cu", "-o", folder + "/image", "-x",
                         "none", "-lm"});
  return out;
}

nvrtcResult size_of(nvrtcProgram program, size_t* size, std::string _nvrtcProgram::*text, bool terminated) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (size == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *size = (program->*text).size() + (terminated ? 1 : 0);
  return NVRTC_SUCCESS;
}

nvrtcResult copy_of(nvrtcProgram program, char* out, std::string _nvrtcProgram::*text, bool terminated) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (out == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(out, (program->*text).c_str(), (program->*text).size() + (terminated ? 1 : 0));
  return NVRTC_SUCCESS;
}

}  // namespace

nvrtcResult nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  if (count == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *count = static_cast<int>(std::size(known_archs));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* archs) {
  if (archs == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::copy(std::begin(known_archs), std::end(known_archs), archs);
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return "NVRTC_SUCCESS";
    case NVRTC_ERROR_INVALID_INPUT:
      return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
    default:
      return "NVRTC_ERROR unknown";
  }
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* source, const char* /*name*/, int header_count,
                               const char* const* /*headers*/, const char* const* /*names*/) {
  if (out == nullptr || source == nullptr || header_count < 0) return NVRTC_ERROR_INVALID_INPUT;
  if (header_count > 0) return NVRTC_ERROR_INVALID_INPUT;  // not here: sources include nothing
  *out = new _nvrtcProgram{.source = source};
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  if (program == nullptr || *program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (count < 0 || (count > 0 && options == nullptr)) return NVRTC_ERROR_INVALID_INPUT;
  Wish wish;
  if (const std::string wrong = take_options(wish, count, options); !wrong.empty()) {
    program->log = "nvrtc: error: unrecognized option or invalid value: " + wrong + "\n";
    return NVRTC_ERROR_INVALID_OPTION;
  }
  program->image.clear();
  program->ptx.clear();
  const fakecuda::Folder folder;
  const bool good = folder.write("source.cu", program->source) &&
                    fakecuda::spawn(command(wish, folder.path()), folder.path() + "/log") == 0;
  program->log = folder.read("log");
  if (good) (wish.real_code ? program->image : program->ptx) = folder.read("image");
  return good ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  return size_of(program, size, &_nvrtcProgram::image, false);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* image) {
  return copy_of(program, image, &_nvrtcProgram::image, false);
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) {
  return size_of(program, size, &_nvrtcProgram::ptx, true);
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) {
  return copy_of(program, ptx, &_nvrtcProgram::ptx, true);
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  return size_of(program, size, &_nvrtcProgram::log, true);
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  return copy_of(program, log, &_nvrtcProgram::log, true);
}
