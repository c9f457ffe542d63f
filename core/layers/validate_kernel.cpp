// SPDX-License-Identifier: Apache-2.0
// validate_kernel.cpp: kernels and communicators under validation: which binding is read and which is written.
//
// Invariant: a kernel's reads and writes are those of its fragment: inputs are read, outputs are written, the workspace is
// written. What a device really does is not looked at.
#include "base/extent.hpp"
#include "layers/check.hpp"
#include "layers/text.hpp"
#include "layers/validate.hpp"

#include <tenon/types.hpp>

#include <algorithm>

namespace tenon::layers {
namespace {

BindingNote binding_of(const tn_tensor& tensor) {
  BindingNote note;
  note.shape = footprint(tensor);
  note.bytes = tensor.layout == 0 ? base::extent_of(tensor).bytes : 0;
  note.alignment = std::max<uint64_t>({tensor.alignment, bits(DType(tensor.dtype)) / 8, 1});
  return note;
}

// What can be said of a place's address, without asking for one.
uint64_t misalignment(const Place& place, uint64_t alignment) {
  if (!place.memory) return place.begin % alignment;
  if (place.memory->address) return (*place.memory->address + place.begin) % alignment;
  return place.begin % std::min(alignment, place.memory->alignment);
}

std::string binding_name(const KernelObject& kernel, uint32_t index) {
  return index < kernel.input_count ? "input " + std::to_string(index)
                                    : "output " + std::to_string(index - kernel.input_count);
}

}  // namespace

void add_uses(std::vector<Access>& uses, const Place& place, const std::optional<Footprint>& shape,
              bool write) {
  const bool kept = write || !place.pageable;
  if (!shape) {
    uses.push_back({place.region, {place.begin, place.begin + place.bytes}, write, kept});
    return;
  }
  for (const Range& row : shape->rows) {
    uses.push_back({place.region, {place.begin + row.begin, place.begin + row.end}, write, kept});
  }
}

int32_t ValidatedPlugin::supports(tn_device* device, const tn_fragment* fragment, tn_support* support, E* e) {
  Check check(*this, Function::supports, e);
  const auto on = check.device(device);
  check.fragment(fragment);
  check.pointer(support, "support");
  if (check.refused()) return check.refusal();
  return settle(on, Interposer::supports(device, fragment, support, e));
}

int32_t ValidatedPlugin::compile(tn_device* device, const tn_fragment* fragment,
                                 const tn_compile_options* options, tn_kernel** kernel, E* e) {
  Check check(*this, Function::compile, e);
  const auto on = check.device(device);
  check.fragment(fragment);
  check.pointer(kernel, "kernel");
  if (check.refused()) return check.refusal();
  const int32_t code = settle(on, Interposer::compile(device, fragment, options, kernel, e));
  if (code == TN_OK) enter_kernel(on, *fragment, options, *kernel);
  return code;
}

int32_t ValidatedPlugin::load(tn_device* device, const tn_fragment* fragment, const void* data,
                              uint64_t bytes, tn_kernel** kernel, E* e) {
  Check check(*this, Function::load, e);
  const auto on = check.device(device);
  check.fragment(fragment);
  check.pointer(kernel, "kernel");
  if (bytes != 0) check.pointer(data, "data");
  if (check.refused()) return check.refusal();
  const int32_t code = settle(on, Interposer::load(device, fragment, data, bytes, kernel, e));
  if (code == TN_OK) enter_kernel(on, *fragment, nullptr, *kernel);
  return code;
}

void ValidatedPlugin::enter_kernel(const std::shared_ptr<DeviceObject>& device, const tn_fragment& fragment,
                                   const tn_compile_options* options, tn_kernel* handle) {
  const std::string label = fragment_label(fragment);
  const auto object = make<KernelObject>(label.c_str(), "", device);
  object->label = label;
  object->input_count = fragment.input_count;
  for (uint32_t i = 0; i < fragment.input_count; ++i) {
    object->bindings.push_back(binding_of(fragment.tensors[fragment.inputs[i]]));
  }
  for (uint32_t i = 0; i < fragment.output_count; ++i) {
    object->bindings.push_back(binding_of(fragment.tensors[fragment.outputs[i]]));
  }
  object->aliases.assign(fragment.aliases, fragment.aliases + fragment.alias_count);
  const uint32_t comms = options == nullptr || options->comms == nullptr ? 0 : options->comm_count;
  for (uint32_t i = 0; i < comms; ++i) {
    if (auto comm = comms_.live(options->comms[i])) object->comms.push_back(std::move(comm));
  }
  tn_kernel_info info{};
  info.size = sizeof info;
  tn_error ignored = no_error();
  const OwnCall own;
  if (Interposer::kernel_info(handle, &info, &ignored) == TN_OK)
    object->workspace_bytes = info.workspace_bytes;
  kernels_.enter(handle, object);
}

int32_t ValidatedPlugin::kernel_info(tn_kernel* kernel, tn_kernel_info* info, E* e) {
  Check check(*this, Function::kernel_info, e);
  const auto object = check.kernel(kernel);
  check.pointer(info, "info");
  if (check.refused()) return check.refusal();
  return settle(object->device, Interposer::kernel_info(kernel, info, e));
}

void ValidatedPlugin::check_bindings(Check& check, const KernelObject& kernel, const tn_span* bindings,
                                     uint32_t count, std::vector<Place>& places) {
  if (count != 0 && !check.pointer(bindings, "bindings")) return;
  if (!kernel.foreign && count != kernel.bindings.size()) {
    check.forbid("count|" + kernel.name, describe(kernel) + " takes " +
                                             std::to_string(kernel.bindings.size()) + " bindings, " +
                                             std::to_string(count) + " were given");
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const std::string role = binding_name(kernel, i) + " of " + kernel.name;
    places.push_back(check.span(&bindings[i], role, Purpose::compute));
    if (kernel.foreign) continue;
    const BindingNote& note = kernel.bindings[i];
    if (bindings[i].bytes < note.bytes) {
      check.forbid("bytes|" + role, role + " needs " + std::to_string(note.bytes) + " bytes and has " +
                                        std::to_string(bindings[i].bytes));
    } else if (note.bytes != 0 && misalignment(places[i], note.alignment) != 0) {
      check.fail("aligned|" + role, role + " lies " +
                                        std::to_string(misalignment(places[i], note.alignment)) +
                                        " bytes past a multiple of " + std::to_string(note.alignment) +
                                        ": its tensor guarantees that alignment");
    }
  }
}

// Outputs overlap nothing but what is declared as an in-place pair, and that exactly.
static void check_overlaps(Check& check, const KernelObject& kernel, const std::vector<Place>& places) {
  if (kernel.foreign) return;
  for (size_t out = kernel.input_count; out < places.size(); ++out) {
    for (size_t i = 0; i < out; ++i) {
      const Place &a = places[i], &b = places[out];
      const auto &x = kernel.bindings[i].shape, &y = kernel.bindings[out].shape;
      if (a.bytes == 0 || b.bytes == 0 || a.region != b.region || !x || !y) continue;
      if (!overlap(*x, a.begin, *y, b.begin)) continue;
      const auto declared = [&](const tn_alias& alias) {
        return alias.input == i && alias.output == out - kernel.input_count && a.begin == b.begin;
      };
      if (std::ranges::any_of(kernel.aliases, declared)) continue;
      const auto name = [&](size_t index) { return binding_name(kernel, static_cast<uint32_t>(index)); };
      check.fail("overlap|" + kernel.name, name(out) + " of " + kernel.name + " overlaps " + name(i) +
                                               ": only a declared in-place pair may, and exactly");
    }
  }
}

int32_t ValidatedPlugin::launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t count,
                                const tn_span* workspace, E* e) {
  Check check(*this, Function::launch, e);
  const auto what = check.kernel(kernel);
  const auto on = check.stream(stream);
  std::vector<Place> places;
  if (what) check_bindings(check, *what, bindings, count, places);
  if (what && on) check.same_device(*what, *on);
  if (what && !check.failed()) check_overlaps(check, *what, places);
  const Place scratch = workspace == nullptr ? Place{} : check.span(workspace, "workspace", Purpose::compute);
  if (what && scratch.bytes < what->workspace_bytes) {
    check.forbid("workspace|" + what->name, what->name + " needs a workspace of " +
                                                std::to_string(what->workspace_bytes) + " bytes, " +
                                                std::to_string(scratch.bytes) + " were given");
  }
  if (check.refused()) return check.refusal();
  const StreamUse use(on.get(), state_.findings, "launch");
  const int32_t code = Interposer::launch(kernel, stream, bindings, count, workspace, e);
  if (code == TN_OK && !check.failed()) launched(*what, *on, places, scratch);
  return settle(on->device, code);
}

void ValidatedPlugin::launched(const KernelObject& kernel, const StreamObject& stream,
                               const std::vector<Place>& places, const Place& scratch) {
  std::vector<Access> uses;
  for (size_t i = 0; i < places.size() && i < kernel.bindings.size(); ++i) {
    if (places[i].bytes != 0) add_uses(uses, places[i], kernel.bindings[i].shape, i >= kernel.input_count);
  }
  if (kernel.workspace_bytes != 0) {
    uses.push_back({scratch.region, {scratch.begin, scratch.begin + kernel.workspace_bytes}, true});
  }
  for (const auto& comm : kernel.comms) join(*comm, stream);
  enqueued(stream, "launch '" + kernel.label + "'", uses);
  for (const auto& comm : kernel.comms) leave(*comm, stream);
}

int32_t ValidatedPlugin::kernel_destroy(tn_kernel* kernel, E* e) {
  Check check(*this, Function::kernel_destroy, e);
  const auto object = check.kernel(kernel);
  if (check.refused()) return check.refusal();
  kernels_.end(kernel, current_call());
  return settle(object->device, Interposer::kernel_destroy(kernel, e));
}

int32_t ValidatedPlugin::save(tn_kernel* kernel, void* data, uint64_t capacity, uint64_t* bytes, E* e) {
  Check check(*this, Function::save, e);
  const auto object = check.kernel(kernel);
  check.pointer(bytes, "bytes");
  if (check.refused()) return check.refusal();
  return settle(object->device, Interposer::save(kernel, data, capacity, bytes, e));
}

}  // namespace tenon::layers
