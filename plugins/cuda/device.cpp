// SPDX-License-Identifier: Apache-2.0
// device.cpp: what an opened GPU promises, and what it makes.
#include "device.hpp"

#include "comm/nccl_door.hpp"
#include "engine/convolutions.hpp"
#include "engine/generated.hpp"
#include "engine/ipc_visit.hpp"
#include "engine/products.hpp"
#include "kernels/patterns.hpp"
#include "kernels/program.hpp"

#include <tenon/author/support.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::cuda {

using author::text;

namespace {

// For who asks (`tenon doctor`): each library is opened to know.
void tell_libraries(const Gpu& gpu, const Tools& tools) {
  if (!tools.host.logs(TN_LOG_INFO)) return;
  const auto tell = [&](const char* purpose, const Result<std::string>& library) {
    tools.host.log(TN_LOG_INFO, text(purpose, library.ok() ? *library : std::string(library.message())));
  };
  tell("matrix products: ", products_library(gpu, tools));
  tell("convolutions, attention: ", convolutions_library(tools));
  tell("ranks of several processes: ", comm::nccl_library(tools.host.option("nccl")));
}

}  // namespace

Result<std::unique_ptr<Device>> Device::make(std::shared_ptr<Gpu> gpu, const Tools& tools) {
  tell_libraries(*gpu, tools);
  auto engines = TN_TRY(engines_of(gpu, tools));
  return std::unique_ptr<Device>(new Device(std::move(gpu), tools, std::move(engines)));
}

void Device::limits(tn_device_limits& out) const {
  size_t free = 0, total = 0;
  const Bound bound(context().driver(), context().handle());
  context().driver().cuMemGetInfo(&free, &total);
  out.alignment = TN_MEMORY_ALIGNMENT;
  out.max_alloc_bytes = total;
  out.max_bindings = max_places;
  out.priorities = context().priorities();
  out.preferences = TN_PREFERS_CHANNELS_LAST_HALF;               // tensor cores
  out.copy_bytes_per_second = context().bytes_per_second() / 2;  // a copy reads and writes
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

tn_pattern_list Device::patterns() const {
  return published_patterns(has_products(*gpu_, tools_), has_convolutions(tools_));
}

Engine& Device::engine_of(const author::FragmentView& fragment) const {
  return **std::ranges::find_if(engines_, [&](const auto& engine) { return engine->takes(fragment); });
}

Status Device::supports(const tn_fragment& fragment, tn_support& out) {
  const author::FragmentView view(fragment);
  Status found = engine_of(view).supports(view, out);
  return found.code() == TN_UNSUPPORTED ? author::refuse(out, found.message()) : std::move(found);
}

Result<std::unique_ptr<Kernel>> Device::compile(const tn_fragment& fragment,
                                                const tn_compile_options& options) {
  TN_TRY(context().alive());
  const author::FragmentView view(fragment);
  return engine_of(view).compile(view, options);
}

Result<std::unique_ptr<Kernel>> Device::load(const tn_fragment& fragment, std::span<const std::byte> saved) {
  TN_TRY(context().alive());
  const author::FragmentView view(fragment);
  return engine_of(view).load(view, saved);
}

namespace {

Result<comm::Wishes> wishes_of(const author::Host& host) {
  const auto value = [&](const char* key, const char* standard) -> std::string_view {
    const char* const given = host.option(key);
    return given != nullptr ? given : standard;
  };
  const std::string_view carrier = value("comm", "auto"), enrolling = value("register", "0");
  if (carrier != "auto" && carrier != "nccl") {
    return Status(TN_INVALID, text("option cuda.comm is '", carrier,
                                   "': 'auto' (threads of one process join by "
                                   "themselves), or 'nccl'"));
  }
  comm::Wishes out{.prefers_nccl = carrier == "nccl"};
  if (enrolling == "0") return out;
  if (enrolling != "1" && enrolling != "windows") {
    return Status(TN_INVALID,
                  text("option cuda.register is '", enrolling,
                       "': 1 to have every rank's memory registered with NCCL, 'windows' where all "
                       "ranks bring memory alike, or 0"));
  }
  out.enrolling = enrolling == "1" ? comm::Enrolling::buffers : comm::Enrolling::windows;
  return out;
}

}  // namespace

Status Device::make_comm_id(std::span<std::byte> id) {
  TN_TRY(context().alive());
  comm::Place place = comm::Place::fresh();
  const auto nccl = comm::nccl_version(tools_.host.option("nccl"));
  if (nccl.ok()) place.nccl = *nccl;
  place.write(id);
  return {};
}

Result<std::unique_ptr<Comm>> Device::create_comm(uint32_t rank, uint32_t size, std::span<const std::byte> id,
                                                  const tn_comm_options& options) {
  TN_TRY(context().alive());
  const comm::Place place = TN_TRY(comm::Place::read(id));
  const char* const name = options.name != nullptr ? options.name : "unnamed";
  const comm::Wishes wishes = TN_TRY(wishes_of(tools_.host));
  return Comm::create(
      place, {.rank = rank, .size = size, .timeout_ns = options.timeout_ns, .name = name, .gpu = gpu_},
      {.library = tools_.host.option("nccl"), .wishes = wishes}, options);
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

Result<ipc::DeviceId> Device::id() const {
  CUuuid found{};
  TN_CUDA_IN(context(), cuDeviceGetUuid, &found, context().device());
  ipc::DeviceId out{};
  std::memcpy(out.data(), found.bytes, out.size());
  return out;
}

Status Device::export_memory(Memory& memory, std::span<std::byte> ticket) {
  TN_TRY(context().alive());
  if (ticket.size() != ipc::ticket_bytes)
    return ipc::Ticket{}.write(ticket);  // before anything is given away
  const ipc::Listing listing = TN_TRY(memory.listing());
  const ipc::DeviceId device = TN_TRY(id());
  return ipc::Ticket{.device = device, .door = listing.door, .number = listing.number, .key = listing.key}
      .write(ticket);
}

Result<std::unique_ptr<Memory>> Device::open_memory(std::span<const std::byte> bytes) {
  constexpr uint64_t patience_ns = 5'000'000'000;
  TN_TRY(context().alive());
  const ipc::Ticket ticket = TN_TRY(ipc::Ticket::read(bytes));
  if (const ipc::DeviceId here = TN_TRY(id()); here != ticket.device) {
    return Status(TN_MISMATCH,
                  text("this ticket is of memory on device ", ipc::words_of(ticket.device),
                       ", and device 'cuda:", context().ordinal(), "' is ", ipc::words_of(here),
                       " (`nvidia-smi -L` lists them): open it on that device, and copy from there"));
  }
  const ipc::Parcel parcel = TN_TRY(ipc::visit(
      ticket.door, {.mark = ipc::ask_mark, .number = ticket.number, .key = ticket.key}, patience_ns));
  const ipc::Extent& extent = parcel.extent;
  if (extent.page_bytes == 0 && extent.bytes == 0) return std::make_unique<Memory>(gpu_, nullptr, 0, 0);
  if (extent.offset > extent.page_bytes || extent.bytes > extent.page_bytes - extent.offset) {
    return Status(TN_INTERNAL, text("the process that wrote this ticket tells of ", extent.bytes,
                                    " bytes at ", extent.offset, " of ", extent.page_bytes, ": report it"));
  }
  auto storage = TN_TRY(open_pages(gpu_->context(), parcel.pages, extent.page_bytes, extent.offset));
  const CUdeviceptr address = storage->address();
  return std::make_unique<Memory>(gpu_, std::move(storage), address, extent.bytes);
}

}  // namespace tenon::cuda
