// SPDX-License-Identifier: Apache-2.0
// device.cpp: what an opened GPU promises, and what it makes.
#include "device.hpp"

#include <tenon/author/support.hpp>

#include <array>

namespace tenon::cuda {

using author::text;

// Twice the memory clock times the width of its bus: the published rate. 0 when the driver does not tell.
double Device::bytes_per_second() const {
  int khz = 0, bits = 0;
  const Driver& driver = context().driver();
  driver.cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, context().device());
  driver.cuDeviceGetAttribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, context().device());
  return 2.0 * 1e3 * khz * bits / 8;
}

void Device::limits(tn_device_limits& out) const {
  size_t free = 0, total = 0;
  const Bound bound(context().driver(), context().handle());
  context().driver().cuMemGetInfo(&free, &total);
  out.alignment = TN_MEMORY_ALIGNMENT;
  out.max_alloc_bytes = total;
  out.max_bindings = max_bindings;
  out.priorities = context().priorities();
  out.copy_bytes_per_second = bytes_per_second() / 2;  // a copy reads and writes
}

Status Device::memory_info(tn_memory_info& out) {
  size_t free = 0, total = 0;
  const Bound bound(context().driver(), context().handle());
  TN_CUDA_IN(context(), cuMemGetInfo, &free, &total);
  out.total_bytes = total;
  out.free_bytes = free;
  out.used_here_bytes = context().used();
  return {};
}

Result<std::unique_ptr<Memory>> Device::allocate(uint32_t kind, uint64_t bytes, uint64_t alignment) {
  if (kind == TN_MEMORY_MANAGED) {
    return Status(
        TN_UNSUPPORTED,
        "managed memory is not offered: pages that move by themselves make every figure a guess; use device "
        "memory and copies, or pinned host memory, which kernels can reach");
  }
  TN_TRY(context().alive());
  std::unique_ptr<Storage> storage;
  if (bytes != 0 && kind == TN_MEMORY_HOST) {
    storage = TN_TRY(pin_host(gpu_->context(), bytes, alignment));
  } else if (bytes != 0 && std::max(bytes, alignment) <= Slabs::largest) {
    storage = TN_TRY(Slabs::take(gpu_->slabs(), std::max(bytes, alignment)));
  } else if (bytes != 0) {
    storage = TN_TRY(map_pages(gpu_->context(), bytes, alignment));
  }
  const CUdeviceptr address = storage != nullptr ? storage->address() : 0;
  return std::make_unique<Memory>(gpu_, std::move(storage), address, bytes);
}

Result<std::unique_ptr<Stream>> Device::create_stream(const tn_stream_options& options) {
  return Stream::create(gpu_, options.priority);
}

Result<bool> Device::peer(Device& other) {
  int able = 0;
  TN_CUDA_IN(context(), cuDeviceCanAccessPeer, &able, context().device(), other.context().device());
  return able != 0;
}

Target Device::target() const noexcept {
  return {.sm = static_cast<uint32_t>(context().sm()),
          .multiprocessors = static_cast<uint32_t>(context().multiprocessors())};
}

// Every byte once through memory: what a fused group is bound by.
double Device::cost_ns(const author::FragmentView& fragment) const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < fragment.binding_count(); ++i) bytes += fragment.binding(i).extent_bytes();
  const double rate = bytes_per_second();
  return rate > 0 ? 1e9 * static_cast<double>(bytes) / rate : 0;
}

Status Device::supports(const tn_fragment& fragment, tn_support& out) {
  const author::FragmentView view(fragment);
  const Status found = check_fragment(view);
  if (!found.ok() && found.code() != TN_UNSUPPORTED) return Status(found.error());
  if (!found.ok()) return author::refuse(out, found.message());
  const auto nvrtc = compiler_.nvrtc(context().driver().version);
  if (!nvrtc.ok()) return author::refuse(out, nvrtc.message());
  out.alias_mask = honoured_aliases(view);
  return author::accept(out, cost_ns(view), workspace_of(view, target()));
}

Result<Program> Device::write(const author::FragmentView& fragment) const {
  TN_TRY(check_fragment(fragment));
  if (fragment.binding_count() > max_bindings) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.binding_count(),
                                       " inputs and outputs; a launch takes ", max_bindings));
  }
  return write_program(fragment, target());
}

Result<std::unique_ptr<Kernel>> Device::compile(const tn_fragment& fragment,
                                                const tn_compile_options& options) {
  TN_TRY(context().alive());
  const author::FragmentView view(fragment);
  Program program = TN_TRY(write(view));
  if (program.workspace_bytes > options.workspace_limit) {
    return Status(TN_UNSUPPORTED, text("needs ", program.workspace_bytes,
                                       " bytes of workspace; the limit is ", options.workspace_limit));
  }
  Bundle bundle =
      TN_TRY(compiler_.compile(std::move(program.source), target().sm, context().driver().version));
  bundle.identity = std::to_array(fragment.identity);
  return Kernel::make(gpu_, program, std::move(bundle), cost_ns(view));
}

Result<std::unique_ptr<Kernel>> Device::load(const tn_fragment& fragment, std::span<const std::byte> saved) {
  TN_TRY(context().alive());
  const author::FragmentView view(fragment);
  Program program = TN_TRY(write(view));
  Bundle bundle =
      TN_TRY(compiler_.expect(std::move(program.source), target().sm, context().driver().version));
  bundle.identity = std::to_array(fragment.identity);
  TN_TRY(bundle.read(saved));
  return Kernel::make(gpu_, program, std::move(bundle), cost_ns(view));
}

Status Device::make_comm_id(std::span<std::byte> id) {
  TN_TRY(context().alive());
  comm::Place::fresh().write(id);
  return {};
}

Result<std::unique_ptr<Comm>> Device::create_comm(uint32_t rank, uint32_t size, std::span<const std::byte> id,
                                                  const tn_comm_options& options) {
  TN_TRY(context().alive());
  const comm::Place place = TN_TRY(comm::Place::read(id));
  const char* const name = options.name != nullptr ? options.name : "unnamed";
  if (!place.is_here()) return comm::refuse_elsewhere(place, rank, name, options.store);
  return Comm::create(
      place, {.rank = rank, .size = size, .timeout_ns = options.timeout_ns, .name = name, .gpu = gpu_},
      compiler_, options);
}

Result<std::unique_ptr<Stream>> Device::import_stream(CUstream native) {
  return Stream::import(gpu_, native);
}

// Whether kernels of this device may touch what lies at the address.
Status Device::check_reach(uint64_t address, uint64_t bytes) const {
  CUmemorytype type{};
  CUdeviceptr start = 0;
  size_t size = 0;
  int owner = 0;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* into[] = {&type, &start, &size, &owner};
  TN_CUDA_IN(context(), cuPointerGetAttributes, 4, which, into, address);
  const auto here = static_cast<int>(context().ordinal());
  if (type == CUmemorytype{} || address < start || bytes > size - (address - start)) {
    return Status(TN_INVALID, text(bytes, " bytes at address ", address,
                                   " are not in one allocation that device 'cuda:", here,
                                   "' reaches: pass the address that the framework's allocator gave"));
  }
  if (type != CU_MEMORYTYPE_DEVICE || owner == here) return {};
  CUdevice other = 0;
  int able = 0;
  TN_CUDA_IN(context(), cuDeviceGet, &other, owner);
  TN_CUDA_IN(context(), cuDeviceCanAccessPeer, &able, context().device(), other);
  if (able != 0) return {};
  return Status(TN_INVALID,
                text("the memory at address ", address, " is of device 'cuda:", owner,
                     "', which device 'cuda:", here, "' cannot reach: import it there, and copy"));
}

Result<std::unique_ptr<Memory>> Device::import_memory(uint64_t address, uint64_t bytes) {
  const Bound bound(context().driver(), context().handle());
  if (bytes != 0) TN_TRY(check_reach(address, bytes));
  return std::make_unique<Memory>(gpu_, nullptr, address, bytes);
}

}  // namespace tenon::cuda
