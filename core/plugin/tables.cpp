// SPDX-License-Identifier: Apache-2.0
// tables.cpp: see tables.hpp. A table is a header and a row of function pointers, so one loop completes all four.
//
// Only `size` bytes of what a plugin gives are ever read; a half function at the end does not exist.
#include "plugin/tables.hpp"

#include "base/text.hpp"
#include "plugin/defaults.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace tenon::plugin {
namespace {

constexpr uint32_t absurd_size = 64 * 1024;

using Names = std::span<const char* const>;
using AnyFunction = void (*)();

constexpr const char* device_slots[] = {"count",       "info",  "open", "close",   "limits",
                                        "memory_info", "alloc", "free", "address", "peer"};
constexpr const char* stream_slots[] = {"create",    "destroy", "copy",  "copy_strided", "fill",
                                        "record",    "wait",    "query", "sync",         "timestamp",
                                        "host_call", "promise", "signal"};
constexpr const char* kernel_slots[] = {"supports", "patterns", "layouts", "layout_bytes", "compile",
                                        "info",     "launch",   "destroy", "save",         "load"};
constexpr const char* comm_slots[] = {"id_bytes", "make_id", "create", "limits", "submit",
                                      "split",    "abort",   "health", "destroy"};

template <class Table, size_t count>
constexpr bool is_row_of(const char* const (&)[count]) {
  return sizeof(Table) == sizeof(tn_header) + count * sizeof(AnyFunction);
}
static_assert(is_row_of<tn_device_api>(device_slots) && is_row_of<tn_stream_api>(stream_slots));
static_assert(is_row_of<tn_kernel_api>(kernel_slots) && is_row_of<tn_comm_api>(comm_slots));

std::string plugin_called(const tn_plugin& known) {
  return known.name == nullptr ? "the plugin" : "plugin " + base::quoted(known.name, 64);
}

// Copies what both sides know of a struct that begins with a tn_header; the rest of `out` stays zero.
Status read_known(const std::string& who, const char* what, const void* given, size_t least, void* out,
                  size_t size) {
  tn_header header;
  std::memcpy(&header, given, sizeof header);
  if (header.size < least || header.size > absurd_size) {
    return Status(TN_INVALID, who + ": header.size of its " + what + " is " + std::to_string(header.size) +
                                  ", expected " + std::to_string(size) + ": set it to sizeof(" + what + ")");
  }
  size_t known = std::min<size_t>(header.size, size);
  known -= (known - sizeof(tn_header)) % sizeof(AnyFunction);
  std::memcpy(out, given, known);
  return {};
}

bool is_null(const std::byte* table, size_t slot) noexcept {
  AnyFunction function;
  std::memcpy(&function, table + sizeof(tn_header) + slot * sizeof function, sizeof function);
  return function == nullptr;
}

// Fills null slots of `table` from `defaults`; a slot without a default is required.
Status fill_slots(const std::string& who, const char* what, Names names, std::byte* table,
                  const std::byte* defaults) {
  for (size_t slot = 0; slot < names.size(); ++slot) {
    if (!is_null(table, slot)) continue;
    if (is_null(defaults, slot)) {
      return Status(TN_INVALID,
                    who + ": its " + what + " lacks the required function '" + names[slot] +
                        "': implement it, or leave the whole interface out where that is allowed");
    }
    const size_t offset = sizeof(tn_header) + slot * sizeof(AnyFunction);
    std::memcpy(table + offset, defaults + offset, sizeof(AnyFunction));
  }
  return {};
}

template <class Table>
Status complete_table(const std::string& who, const char* what, Names names, const Table* given,
                      const Table& defaults, Table& out) {
  if (given == nullptr) {
    return Status(TN_INVALID,
                  who + " has no " + what + ", which every plugin needs: set it in its tn_plugin");
  }
  TN_TRY(read_known(who, what, given, sizeof(tn_header), &out, sizeof out));
  TN_TRY(fill_slots(who, what, names, reinterpret_cast<std::byte*>(&out),
                    reinterpret_cast<const std::byte*>(&defaults)));
  out.header.size = sizeof out;
  return {};
}

// The completed descriptor's own functions: each hands the plugin the descriptor that the plugin gave.
const Tables& behind(const tn_plugin* plugin) noexcept {
  return *static_cast<const Tables*>(plugin->context);
}

int32_t count_devices(const tn_plugin* plugin, uint32_t* count, tn_error* error) {
  const Tables& tables = behind(plugin);
  return tables.known.device->count(tables.given, count, error);
}

int32_t describe_device(const tn_plugin* plugin, uint32_t ordinal, tn_device_info* info, tn_error* error) {
  const Tables& tables = behind(plugin);
  return tables.known.device->info(tables.given, ordinal, info, error);
}

int32_t open_device(const tn_plugin* plugin, uint32_t ordinal, const tn_device_options* options,
                    tn_device** device, tn_error* error) {
  const Tables& tables = behind(plugin);
  return tables.known.device->open(tables.given, ordinal, options, device, error);
}

const void* find_extension(const tn_plugin* plugin, const char* id) {
  const Tables& tables = behind(plugin);
  return tables.known.extension == nullptr ? nullptr : tables.known.extension(tables.given, id);
}

int32_t quiesce_plugin(const tn_plugin* plugin, tn_error* error) {
  const Tables& tables = behind(plugin);
  return tables.known.quiesce == nullptr ? TN_OK : tables.known.quiesce(tables.given, error);
}

int32_t shut_down_plugin(const tn_plugin* plugin, tn_error* error) {
  const Tables& tables = behind(plugin);
  return tables.known.shutdown == nullptr ? TN_OK : tables.known.shutdown(tables.given, error);
}

const char* or_else(const char* text, const char* fallback) noexcept {
  return text == nullptr ? fallback : text;
}

Status read_descriptor(const tn_plugin& given, tn_plugin& known) {
  // Up to and with the stream table: without it there is nothing to be used.
  constexpr size_t least = offsetof(tn_plugin, stream) + sizeof(void*);
  TN_TRY(read_known("the plugin", "tn_plugin", &given, least, &known, sizeof known));
  if (known.name == nullptr || known.name[0] == '\0') {
    return Status(TN_INVALID,
                  "the plugin's descriptor has no name: set tn_plugin.name to that of its manifest");
  }
  return {};
}

void complete_descriptor(Tables& tables) {
  tables.device.count = count_devices;
  tables.device.info = describe_device;
  tables.device.open = open_device;
  const tn_plugin& known = tables.known;
  tables.descriptor = {
      .header = {.size = sizeof(tn_plugin), .major = known.header.major, .minor = known.header.minor},
      .name = known.name,
      .vendor = or_else(known.vendor, "unknown"),
      .version = or_else(known.version, "0.0.0"),
      .features = known.features,
      .context = &tables,
      .device = &tables.device,
      .stream = &tables.stream,
      .kernel = &tables.kernel,
      .comm = &tables.comm,
      .extension = find_extension,
      .quiesce = quiesce_plugin,
      .shutdown = shut_down_plugin,
  };
}

// Half a pair of functions would make a promise that nobody can keep.
Status check_promises(const std::string& who, const tn_stream_api& stream) {
  const bool makes = stream.promise != stream_defaults.promise,
             keeps = stream.signal != stream_defaults.signal;
  if (makes == keeps) return {};
  return Status(TN_INVALID, who + ": its tn_stream_api has '" + (makes ? "promise" : "signal") +
                                "' without '" + (makes ? "signal" : "promise") + "': give both or neither");
}

std::vector<std::string> emulation_of(const Tables& tables) {
  std::vector<std::string> words;
  const auto add = [&](bool missing, const char* text) {
    if (missing) words.emplace_back(text);
  };
  const tn_stream_api& stream = tables.stream;
  add((tables.known.features & TN_FEATURE_SYNCHRONOUS) != 0, "streams: work completes inside the call");
  add(!tables.has_kernel, "kernels: none (memory and copies only)");
  add(stream.copy_strided == stream_defaults.copy_strided, "strided copies: row by row");
  add(stream.host_call == stream_defaults.host_call, "host calls: the stream is synchronised");
  add(stream.promise == stream_defaults.promise, "promises: synchronous, the host blocks");
  add(stream.timestamp == stream_defaults.timestamp, "timestamps: none");
  add(tables.device.peer == device_defaults.peer, "peer copies: staged through the host");
  return words;
}

}  // namespace

Result<std::unique_ptr<Tables>> complete(const tn_plugin& given) {
  auto tables = std::make_unique<Tables>();
  tn_plugin& known = tables->known;
  TN_TRY(read_descriptor(given, known));
  tables->given = &given;
  tables->has_kernel = known.kernel != nullptr;
  tables->has_comm = known.comm != nullptr;

  const std::string who = plugin_called(known);
  TN_TRY(complete_table(who, "tn_device_api", device_slots, known.device, device_defaults, tables->device));
  TN_TRY(complete_table(who, "tn_stream_api", stream_slots, known.stream, stream_defaults, tables->stream));
  TN_TRY(complete_table(who, "tn_kernel_api", kernel_slots, tables->has_kernel ? known.kernel : &no_kernels,
                        kernel_defaults, tables->kernel));
  TN_TRY(complete_table(who, "tn_comm_api", comm_slots, tables->has_comm ? known.comm : &no_comms,
                        comm_defaults, tables->comm));
  TN_TRY(check_promises(who, tables->stream));
  complete_descriptor(*tables);
  tables->emulated = emulation_of(*tables);
  return tables;
}

std::vector<std::string> feature_names(uint64_t features) {
  static constexpr std::pair<uint64_t, const char*> names[] = {
      {TN_FEATURE_ADDRESSABLE, "ADDRESSABLE"},
      {TN_FEATURE_CROSS_DEVICE_WAIT, "CROSS_DEVICE_WAIT"},
      {TN_FEATURE_FRAGMENT_COLLECTIVES, "FRAGMENT_COLLECTIVES"},
      {TN_FEATURE_SYNCHRONOUS, "SYNCHRONOUS"},
      {TN_FEATURE_WHOLE_GRAPH, "WHOLE_GRAPH"},
      {TN_FEATURE_UNLOADABLE, "UNLOADABLE"},
      {TN_FEATURE_HOST_MEMORY, "HOST_MEMORY"},
  };
  std::vector<std::string> found;
  for (const auto& [bit, name] : names) {
    if ((features & bit) != 0) found.emplace_back(name);
  }
  return found;
}

}  // namespace tenon::plugin
