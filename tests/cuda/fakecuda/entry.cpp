// SPDX-License-Identifier: Apache-2.0
// entry.cpp: the driver's own calls: initialisation, version, words for codes, and the table of functions.
//
// Invariant: the table is symbols.def of the plugin, row by row; a row without a function here does not link.
#include "driver.hpp"

#include <cudaTypedefs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace fakecuda {
namespace {

struct Row {
  const char* name;
  int version;
  void* function;
};

#define TN_CUDA_SYMBOL(name, version)                                       \
  static_assert(std::is_same_v<PFN_##name##_v##version, decltype(&::name)>, \
                #name " has another signature here");
#include "plugins/cuda/engine/symbols.def"

const Row rows[] = {
#define TN_CUDA_SYMBOL(name, version) {#name, version, reinterpret_cast<void*>(&::name)},
#include "plugins/cuda/engine/symbols.def"
    {"cuGetProcAddress", 12000, reinterpret_cast<void*>(&::cuGetProcAddress)},
};

// Names whose signature changed: who asks with such a version gets a function that is not here.
constexpr struct {
  const char* name;
  int version;
} changed[] = {{"cuCtxSynchronize", 13000}};

bool has_changed(const char* name, int version) {
  for (const auto& change : changed)
    if (std::strcmp(change.name, name) == 0) return version >= change.version;
  return false;
}

const Row* find_row(const char* name) {
  for (const Row& row : rows)
    if (std::strcmp(row.name, name) == 0) return &row;
  return nullptr;
}

CUresult usable(const Settings& settings) {
  if (settings.stub) return CUDA_ERROR_STUB_LIBRARY;
  return settings.devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

// Tells each kind of which something is left; how many kinds there are.
unsigned tell_left_over(const Driver& d) {
  const auto memory = d.memory.left();
  const struct {
    const char* what;
    size_t count;
  } left[] = {{"streams", d.streams.all().size()},   {"events", d.events.all().size()},
              {"modules", d.modules.all().size()},   {"graphs", d.graphs.all().size() + d.execs.all().size()},
              {"address ranges", memory.ranges},     {"pieces of device memory", memory.pieces},
              {"mappings", memory.mappings},         {"pinned blocks", memory.pinned},
              {"contexts", d.contexts.all().size()}, {"captures", d.captures.size()}};
  unsigned kinds = 0;
  for (const auto& item : left) {
    if (item.count == 0) continue;
    std::fprintf(stderr, "fakecuda: left over: %zu %s\n", item.count, item.what);
    ++kinds;
  }
  return kinds;
}

void report_left_over() {
  Driver& d = driver();
  Lock lock(d.mutex);
  if (d.settings.check) tell_left_over(d);
}

}  // namespace

Driver& driver() {
  static Driver* const the_driver = new Driver;
  return *the_driver;
}

CUresult configure(Driver& d, Lock& lock, const char* text, std::string& error) {
  const auto settings = parse_settings(text != nullptr ? text : "", error);
  if (!settings) return CUDA_ERROR_INVALID_VALUE;
  if (!d.contexts.all().empty()) {
    error = "a context is alive";
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  d.settings = *settings;
  d.counts = {};
  d.primary.assign(settings->devices, nullptr);
  d.memory.start(settings->devices, settings->memory);
  d.engine.start(*settings, lock);
  d.initialised = d.initialised && usable(*settings) == CUDA_SUCCESS;
  return CUDA_SUCCESS;
}

CUresult initialise() {
  Driver& d = driver();
  Lock lock(d.mutex);
  static const CUresult first = [&] {
    std::string error;
    const CUresult code = configure(d, lock, std::getenv("FAKECUDA"), error);
    if (code != CUDA_SUCCESS) std::fprintf(stderr, "%s\n", error.c_str());
    std::atexit(report_left_over);
    return code;
  }();
  if (first != CUDA_SUCCESS) return first;
  const CUresult code = usable(d.settings);
  d.initialised = code == CUDA_SUCCESS;
  return code;
}

}  // namespace fakecuda

using namespace fakecuda;

// For tests: takes up other settings, as FAKECUDA would give them, while no context is alive.
extern "C" __attribute__((visibility("default"))) CUresult fakecuda_configure(const char* text) {
  const CUresult first = initialise();
  if (first == CUDA_ERROR_INVALID_VALUE) return first;
  Driver& d = driver();
  Lock lock(d.mutex);
  std::string error;
  const CUresult code = configure(d, lock, text, error);
  if (code != CUDA_SUCCESS) std::fprintf(stderr, "%s\n", error.c_str());
  return code;
}

// For tests: names on stderr what is left over now, and gives the number of kinds.
extern "C" __attribute__((visibility("default"))) unsigned fakecuda_left_over() {
  Driver& d = driver();
  Lock lock(d.mutex);
  return tell_left_over(d);
}

// For tests: how many modules are loaded.
extern "C" __attribute__((visibility("default"))) size_t fakecuda_modules() {
  Driver& d = driver();
  Lock lock(d.mutex);
  return d.modules.all().size();
}

CUresult cuInit(unsigned flags) {
  if (inside_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  return flags == 0 ? initialise() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  (void)initialise();
  *version = static_cast<int>(driver().settings.driver);
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  (void)initialise();
  if (driver().settings.stub) return CUDA_ERROR_STUB_LIBRARY;
  if (version > static_cast<int>(driver().settings.driver)) return CUDA_ERROR_INVALID_VALUE;
  const Row* row = find_row(symbol);
  const bool known = row != nullptr && !has_changed(symbol, version);
  const bool sufficient = known && version >= row->version;
  *function = sufficient ? row->function : nullptr;
  if (status != nullptr)
    *status = sufficient ? CU_GET_PROC_ADDRESS_SUCCESS
              : known    ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                         : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}
