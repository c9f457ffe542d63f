// SPDX-License-Identifier: Apache-2.0
// module.cpp: images: what the test NVRTC has compiled, and fatbins, for whose entries this library has twins.
//
// Invariant: an image is loaded only when it was made for the device's architecture and against this library's layouts.
#include "capture.hpp"
#include "fibers.hpp"
#include "timeline.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace fakecuda {

Module::~Module() {
  if (library != nullptr) dlclose(library);
  if (file >= 0) close(file);
}

namespace {

constexpr uint32_t fatbin_magic = 0xBA55ED50;
#ifdef __x86_64__
constexpr unsigned host_machine = EM_X86_64;
#else
constexpr unsigned host_machine = EM_AARCH64;
#endif

// An image has no length of its own: it ends where its last section or its section table does.
size_t image_bytes(const char* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  require(header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_shentsize == sizeof(Elf64_Shdr),
          CUDA_ERROR_INVALID_IMAGE);
  require(header.e_machine == host_machine, CUDA_ERROR_NO_BINARY_FOR_GPU);  // a GPU's own code has no twin
  size_t bytes = header.e_shoff + size_t{header.e_shnum} * sizeof(Elf64_Shdr);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS) bytes = std::max<size_t>(bytes, section.sh_offset + section.sh_size);
  }
  return bytes;
}

// Whether code for `arch` runs on a device of capability `sm`: the same generation, and not a newer one.
bool runs_on(unsigned arch, uint64_t sm) { return arch / 10 == sm / 10 && arch % 10 <= sm % 10; }

void load(Module& module, const char* image, uint64_t sm) {
  const size_t bytes = image_bytes(image);
  module.file = memfd_create("fakecuda-module", MFD_CLOEXEC);
  require(module.file >= 0, CUDA_ERROR_OPERATING_SYSTEM);
  for (size_t at = 0; at < bytes;) {
    const ssize_t written = write(module.file, image + at, bytes - at);
    require(written > 0, CUDA_ERROR_OPERATING_SYSTEM);
    at += static_cast<size_t>(written);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(module.file);
  module.library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module.library == nullptr) std::fprintf(stderr, "fakecuda: %s\n", dlerror());
  require(module.library != nullptr, CUDA_ERROR_INVALID_IMAGE);
  const auto* about = static_cast<const unsigned*>(dlsym(module.library, "fakecuda_module"));
  require(about != nullptr && about[0] == entry_version, CUDA_ERROR_INVALID_IMAGE);
  require(runs_on(about[1], sm), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

// This library itself, whose entries are the twins of what fatbins hold.
void* own_library() {
  Dl_info about{};
  dladdr(reinterpret_cast<void*>(&services), &about);
  return dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

void open_image(Module& module, const void* image, uint64_t sm) {
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == fatbin_magic) {
    module.built_in = true;
    module.library = own_library();
    require(module.library != nullptr, CUDA_ERROR_OPERATING_SYSTEM);
    return;
  }
  require(std::memcmp(&magic, ELFMAG, SELFMAG) == 0, CUDA_ERROR_INVALID_IMAGE);
  load(module, static_cast<const char*>(image), sm);
}

int attribute_of(const Driver& d, const Function& function, CUfunction_attribute attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(function.entry->max_threads);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return 32;  // of no meaning: a twin has none
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return static_cast<int>(d.settings.sm);
    default:
      return 0;
  }
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    require(out != nullptr && image != nullptr, CUDA_ERROR_INVALID_VALUE);
    check_unsafe(d);
    auto module = std::make_shared<Module>();
    module->context = &context;
    open_image(*module, image, d.settings.sm);
    *out = d.modules.add(std::move(module));
  });
}

// It waits for all streams, and keeps others out meanwhile.
CUresult cuModuleUnload(CUmodule handle) {
  return call_in_context([&](Driver& d, Lock& lock, Context& context) {
    const auto module = d.modules.get(handle);
    require(module->context == &context, CUDA_ERROR_INVALID_HANDLE);
    check_unsafe(d);
    wait_shut(d, lock, last_tasks(d, context));
    d.functions.remove_if([&](const Function& function) { return function.module == module; });
    d.modules.remove(handle);
  });
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    require(out != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto module = d.modules.get(handle);
    require(module->context == &context, CUDA_ERROR_INVALID_HANDLE);
    const std::string symbol = std::string(entry_prefix) + name;
    const auto* entry = static_cast<const Entry*>(dlsym(module->library, symbol.c_str()));
    require(entry != nullptr, CUDA_ERROR_NOT_FOUND);
    require(entry->version == entry_version, CUDA_ERROR_INVALID_IMAGE);
    *entry->services = services();
    auto function = std::make_shared<Function>();
    function->context = &context;
    function->module = module;
    function->entry = entry;
    function->name = name;
    *out = d.functions.add(std::move(function));
  });
}

CUresult cuFuncLoad(CUfunction handle) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    const auto function = d.functions.get(handle);
    require(function->context == &context, CUDA_ERROR_INVALID_HANDLE);
    check_unsafe(d);
    function->loaded = true;
  });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  return call_in_context([&](Driver& d, Lock&, Context&) {
    require(attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
    answer(value) = attribute_of(d, *d.functions.get(handle), attribute);
  });
}
