// SPDX-License-Identifier: Apache-2.0
// plugin.cpp: the entry, the devices that the driver finds, and the extensions tn.capture/1, tn.import/1 and tn.ipc/1.
//
// Options of the host: `cache` (engine/folder.hpp), `keep`, `nvrtc` (engine/compiler.hpp), `cublaslt`
// (engine/products.hpp), `cudnn` (engine/convolutions.hpp, engine/attention.hpp), `tf32`, `lossy_relu` (engine/leave.hpp), `search`,
// `workspace_limit` (engine/tuning.hpp), `nccl` (engine/nccl.hpp), `comm` (comm.hpp).
// Invariant: nothing of NVIDIA's is opened before a device is asked for, so the plugin loads on every machine and says
// there what is missing.
#include "device.hpp"

#include <tenon/ext/import.h>
#include <tenon/ext/ipc.h>
#include <tenon/author/capture_table.hpp>
#include <tenon/author/plugin.hpp>

namespace tenon::cuda {

namespace {
const void* table_of(std::string_view id);
}

class Plugin {
 public:
  static constexpr author::Identity identity{
      .name = "cuda",
      .vendor = "Tenon",
      .version = TENON_PLUGIN_VERSION,
      .features = TN_FEATURE_ADDRESSABLE | TN_FEATURE_CROSS_DEVICE_WAIT};
  using Device = cuda::Device;
  using Memory = cuda::Memory;
  using Stream = cuda::Stream;
  using Kernel = cuda::Kernel;
  using Capture = cuda::Captured;
  using Comm = cuda::Comm;

  explicit Plugin(author::Host host) : tools_(host) {}

  Result<uint32_t> device_count() {
    const Driver& driver = *TN_TRY(Driver::open());
    int count = 0;
    TN_CUDA(driver, cuDeviceGetCount, &count);
    return static_cast<uint32_t>(count);
  }

  Status describe(uint32_t ordinal, tn_device_info& out);
  Result<std::unique_ptr<cuda::Device>> open(uint32_t ordinal, const tn_device_options& options);
  const void* extension(std::string_view id) { return table_of(id); }
  Status quiesce();

 private:
  Result<std::shared_ptr<Gpu>> gpu(uint32_t ordinal);

  // The context stays while it is healthy, until quiesce or shutdown: a driver takes up to a second to make one.
  struct Place {
    std::shared_ptr<Context> context{};
    std::weak_ptr<Gpu> gpu{};  // for as long as somebody has it open
  };

  const Tools tools_;
  std::mutex mutex_;  // of places_
  std::map<uint32_t, Place> places_{};
};

Status Plugin::describe(uint32_t ordinal, tn_device_info& out) {
  const Driver& driver = *TN_TRY(Driver::open());
  CUdevice device = 0;
  size_t bytes = 0;
  int units = 0;
  TN_CUDA(driver, cuDeviceGet, &device, static_cast<int>(ordinal));
  TN_CUDA(driver, cuDeviceGetName, out.name, static_cast<int>(sizeof out.name), device);
  TN_CUDA(driver, cuDeviceGetPCIBusId, out.id, static_cast<int>(sizeof out.id), device);
  TN_CUDA(driver, cuDeviceTotalMem, &bytes, device);
  TN_CUDA(driver, cuDeviceGetAttribute, &units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  driver.cuDeviceGetAttribute(&out.numa_node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
  const auto nvrtc = tools_.compiler.nvrtc(driver.version);
  const std::string kernels = nvrtc.ok() ? author::text("NVRTC ", version_text((*nvrtc)->version() * 10))
                                         : author::text("no NVRTC, so no kernels: install cuda-nvrtc-",
                                                        std::max(driver.version / 1000, Nvrtc::oldest_major));
  author::set_text(out.driver, author::text("CUDA ", version_text(driver.version), ", ", kernels));
  out.kind = TN_DEVICE_GPU;
  out.memory_bytes = bytes;
  out.dlpack_type = 2;  // kDLCUDA
  out.compute_units = static_cast<uint32_t>(units);
  return {};
}

// One per device. A context that was lost, or that somebody has reset, is let go and made anew.
Result<std::shared_ptr<Gpu>> Plugin::gpu(uint32_t ordinal) {
  const std::lock_guard lock(mutex_);
  Place& place = places_[ordinal];
  if (const std::shared_ptr<Gpu> open = place.gpu.lock(); open != nullptr) {
    TN_TRY(open->context()->alive());
    return open;
  }
  if (place.context != nullptr && place.context->alive().ok()) {
    if (auto again = Gpu::open(place.context); again.ok()) {
      place.gpu = *again;
      return again;
    }
  }
  place.context = nullptr;
  auto context = TN_TRY(Context::open(*TN_TRY(Driver::open()), ordinal));
  auto made = TN_TRY(Gpu::open(context));
  place = {std::move(context), made};
  return made;
}

Result<std::unique_ptr<cuda::Device>> Plugin::open(uint32_t ordinal, const tn_device_options& /*options*/) {
  return cuda::Device::make(TN_TRY(gpu(ordinal)), tools_);
}

// No thread of this plugin runs but a communicator's, for as long as it lives, and one that answers for exported memory, for as
// long as there is some; what is on its way is waited for. Contexts of which nobody has a device are let go.
Status Plugin::quiesce() {
  std::vector<std::shared_ptr<Gpu>> open;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [ordinal, place] : places_) {
      if (auto found = place.gpu.lock())
        open.push_back(std::move(found));
      else
        place.context = nullptr;
    }
  }
  for (const auto& found : open) {
    const Context& context = *found->context();
    const Bound bound(context.driver(), context.handle());
    TN_CUDA_IN(context, cuCtxSynchronize);
    found->exports().rest();
  }
  return {};
}

namespace {

using author::DeviceTable;
using author::StreamTable;

Stream& stream_of(tn_stream* stream) { return author::object<Stream>(stream); }
int32_t import_stream(tn_device* device, uint64_t native, tn_stream** stream, tn_error* error) noexcept {
  if (stream != nullptr) *stream = nullptr;
  return author::guarded<Plugin>(error, [&]() -> Status {
    if (device == nullptr || stream == nullptr) return author::is_null("device or stream");
    auto& parent = author::Handles<Plugin>::of(device);
    auto made =
        TN_TRY(parent.object->import_stream(reinterpret_cast<CUstream>(static_cast<uintptr_t>(native))));
    *stream = TN_TRY(StreamTable<Plugin>::wrap_stream(parent, std::move(made)));
    return {};
  });
}

int32_t import_memory(tn_device* device, uint64_t address, uint64_t bytes, tn_memory** memory,
                      tn_error* error) noexcept {
  if (memory != nullptr) *memory = nullptr;
  return author::guarded<Plugin>(error, [&]() -> Status {
    if (device == nullptr || memory == nullptr) return author::is_null("device or memory");
    auto& parent = author::Handles<Plugin>::of(device);
    *memory = TN_TRY(
        DeviceTable<Plugin>::wrap_memory(parent, TN_TRY(parent.object->import_memory(address, bytes))));
    return {};
  });
}

int32_t native(tn_stream* stream, uint64_t* out, tn_error* error) noexcept {
  if (out != nullptr) *out = 0;
  return author::guarded<Plugin>(error, [&]() -> Status {
    if (stream == nullptr || out == nullptr) return author::is_null("stream or native");
    *out = reinterpret_cast<uintptr_t>(stream_of(stream).native());
    return {};
  });
}

constexpr tn_import_api import_api{.header = {sizeof(tn_import_api), TN_ABI_MAJOR, TN_ABI_MINOR},
                                   .stream = &import_stream,
                                   .memory = &import_memory,
                                   .native = &native};

int32_t ticket_bytes(tn_device* device, uint64_t* bytes, tn_error* error) noexcept {
  if (bytes != nullptr) *bytes = 0;
  return author::guarded<Plugin>(error, [&]() -> Status {
    if (device == nullptr || bytes == nullptr) return author::is_null("device or bytes");
    *bytes = ipc::ticket_bytes;
    return {};
  });
}

int32_t export_memory(tn_memory* memory, void* ticket, uint64_t bytes, tn_error* error) noexcept {
  return author::guarded<Plugin>(error, [&]() -> Status {
    if (memory == nullptr || ticket == nullptr) return author::is_null("memory or ticket");
    auto& handle = author::Handles<Plugin>::of(memory);
    return handle.device->object->export_memory(*handle.object, {static_cast<std::byte*>(ticket), bytes});
  });
}

int32_t open_memory(tn_device* device, const void* ticket, uint64_t bytes, tn_memory** memory,
                    tn_error* error) noexcept {
  if (memory != nullptr) *memory = nullptr;
  return author::guarded<Plugin>(error, [&]() -> Status {
    if (device == nullptr || ticket == nullptr || memory == nullptr)
      return author::is_null("device, ticket or memory");
    auto& parent = author::Handles<Plugin>::of(device);
    auto opened = TN_TRY(parent.object->open_memory({static_cast<const std::byte*>(ticket), bytes}));
    *memory = TN_TRY(DeviceTable<Plugin>::wrap_memory(parent, std::move(opened)));
    return {};
  });
}

constexpr tn_ipc_api ipc_api{.header = {sizeof(tn_ipc_api), TN_ABI_MAJOR, TN_ABI_MINOR},
                             .ticket_bytes = &ticket_bytes,
                             .export_memory = &export_memory,
                             .open_memory = &open_memory};

const void* table_of(std::string_view id) {
  if (id == TN_CAPTURE_ID) return &author::CaptureTable<Plugin>::table;
  if (id == TN_IMPORT_ID) return &import_api;
  return id == TN_IPC_ID ? &ipc_api : nullptr;
}

}  // namespace

}  // namespace tenon::cuda

TENON_PLUGIN(tenon::cuda::Plugin)
