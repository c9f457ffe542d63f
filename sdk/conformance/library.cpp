// SPDX-License-Identifier: Apache-2.0
// library.cpp: dlopen, the entry call, and the copies of the tables.
#include "conformance/library.hpp"

#include "conformance/breadcrumb.hpp"
#include "conformance/words.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tenon::conform {

namespace {

constexpr size_t most_log = 64 * 1024;
std::mutex log_mutex;

void keep_line(void* context, int32_t level, const char* component, const char* text) {
  const std::lock_guard lock(log_mutex);
  std::string& log = static_cast<Host*>(context)->log;
  if (log.size() > most_log) return;
  log +=
      words("[", level, "] ", component != nullptr ? component : "", ": ", text != nullptr ? text : "", "\n");
}

// By the key as it is, or as an environment's variable writes it.
const char* option(void* context, const char* /*plugin*/, const char* key) {
  const auto& options = static_cast<Host*>(context)->options;
  std::string plain = key;
  std::replace(plain.begin(), plain.end(), '-', '_');
  auto found = options.find(key);
  if (found == options.end()) found = options.find(plain);
  return found == options.end() ? nullptr : found->second.c_str();
}

void* allocate(void* /*context*/, uint64_t bytes, uint64_t alignment) {
  const uint64_t unit = std::max<uint64_t>(alignment, sizeof(void*));
  return std::aligned_alloc(unit, (std::max<uint64_t>(bytes, 1) + unit - 1) / unit * unit);
}

void release(void* /*context*/, void* memory, uint64_t /*bytes*/, uint64_t /*alignment*/) {
  std::free(memory);
}

// Copies what the writer knows of and this kit too.
template <class Table>
void copy_table(Table& out, const Table* given) {
  if (given == nullptr) return;
  std::memcpy(&out, given, std::min<size_t>(sizeof(Table), given->header.size));
}

template <class Table>
std::string absurd(const char* name, const Table* given) {
  if (given == nullptr) return {};
  const auto least = static_cast<uint32_t>(sizeof(tn_header));
  if (given->header.size >= least && given->header.size <= 64 * 1024) return {};
  return words("the ", name, " table claims a size of ", given->header.size, " bytes");
}

std::string absurd_size(const tn_plugin& plugin) {
  for (const std::string& story : {absurd("device", plugin.device), absurd("stream", plugin.stream),
                                   absurd("kernel", plugin.kernel), absurd("communicator", plugin.comm)}) {
    if (!story.empty()) return story;
  }
  return {};
}

}  // namespace

Host::Host() {
  log.reserve(most_log + 4096);  // the kit's own growth is not to be taken for the plugin's
  table.header = {.size = sizeof(tn_host), .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR};
  table.min_major = TN_ABI_MAJOR;
  table.min_minor = 0;
  table.context = this;
  table.name = "tenon conform";
  table.log = keep_line;
  table.log_level = [](void*) -> int32_t { return TN_LOG_INFO; };
  table.allocate = allocate;
  table.release = release;
  table.option = option;
}

Result<Library> open_library(const std::string& path) {
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  Library out;
  {
    const Breadcrumb here("dlopen, which runs the constructors of the library,");
    out.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (out.handle == nullptr) {
    const char* reason = dlerror();
    return Status(TN_NOT_FOUND, words("dlopen: ", reason != nullptr ? reason : path.c_str()));
  }
  out.entry = reinterpret_cast<tn_plugin_entry_fn>(dlsym(out.handle, TN_PLUGIN_ENTRY_NAME));
  if (out.entry == nullptr) {
    return Status(TN_NOT_FOUND,
                  words("'", path, "' has no symbol " TN_PLUGIN_ENTRY_NAME ": it is not a plugin"));
  }
  return out;
}

Result<Tables> enter(tn_plugin_entry_fn entry, const tn_host& host) {
  tn_error error = no_error();
  const tn_plugin* plugin = [&] {
    const Breadcrumb here(TN_PLUGIN_ENTRY_NAME);
    return entry(&host, &error);
  }();
  if (plugin == nullptr) {
    const int32_t code = error.code != TN_OK ? error.code : static_cast<int32_t>(TN_INTERNAL);
    return status_of(code, error);
  }
  if (plugin->header.size < offsetof(tn_plugin, stream) + sizeof(void*) || plugin->header.size > 64 * 1024) {
    return Status(TN_INVALID, words("the descriptor claims a size of ", plugin->header.size, " bytes"));
  }
  Tables out;
  out.plugin = plugin;
  copy_table(out.copy, plugin);
  if (const std::string story = absurd_size(out.copy); !story.empty()) return Status(TN_INVALID, story);
  copy_table(out.device, out.copy.device);
  copy_table(out.stream, out.copy.stream);
  copy_table(out.kernel, out.copy.kernel);
  copy_table(out.comm, out.copy.comm);
  return out;
}

std::string missing_function(const Tables& tables) {
  const tn_device_api& d = tables.device;
  const tn_stream_api& s = tables.stream;
  const std::pair<bool, const char*> required[] = {
      {d.count, "device.count"},     {d.info, "device.info"},     {d.open, "device.open"},
      {d.close, "device.close"},     {d.limits, "device.limits"}, {d.memory_info, "device.memory_info"},
      {d.alloc, "device.alloc"},     {d.free, "device.free"},     {s.create, "stream.create"},
      {s.destroy, "stream.destroy"}, {s.copy, "stream.copy"},     {s.fill, "stream.fill"},
      {s.record, "stream.record"},   {s.wait, "stream.wait"},     {s.query, "stream.query"},
      {s.sync, "stream.sync"},
  };
  for (const auto& [there, name] : required) {
    if (!there) return name;
  }
  const tn_kernel_api& k = tables.kernel;
  const std::pair<bool, const char*> with_kernels[] = {{k.supports, "kernel.supports"},
                                                       {k.compile, "kernel.compile"},
                                                       {k.launch, "kernel.launch"},
                                                       {k.info, "kernel.info"},
                                                       {k.destroy, "kernel.destroy"}};
  for (const auto& [there, name] : with_kernels) {
    if (tables.copy.kernel != nullptr && !there) return name;
  }
  return {};
}

}  // namespace tenon::conform
