// SPDX-License-Identifier: Apache-2.0
// transfer.cpp: choosing among the driver's copies, our kernels and the staging chunks.
#include "transfer.hpp"

#include "../kernels/device.hpp"

#include <algorithm>

namespace tenon::cuda {

namespace {

std::byte* host_pointer(CUdeviceptr address) noexcept {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
}

// Whether both are memories, of different devices.
bool crosses(const tn_span& dst, const tn_span& src) noexcept {
  if (dst.space != TN_SPACE_MEMORY || src.space != TN_SPACE_MEMORY) return false;
  return &author::object<Memory>(dst.memory).context() != &author::object<Memory>(src.memory).context();
}

// Waits until the stream has come here. A driver that waits for one in a copy to ordinary memory keeps other threads out
// meanwhile, and with them the rank that this stream waits for.
Status arrive(Context& context, CUstream stream) {
  const EventRef here = TN_TRY(context.events().take(false));
  TN_CUDA_IN(context, cuEventRecord, here.native(), stream);
  return outlast(context, here);
}

Status between_devices(const Context& here, CUstream stream, const tn_span& dst, const tn_span& src) {
  const Context& to = author::object<Memory>(dst.memory).context();
  const Context& from = author::object<Memory>(src.memory).context();
  TN_CUDA_IN(here, cuMemcpyPeerAsync, place(dst), to.handle(), place(src), from.handle(), dst.bytes, stream);
  return {};
}

Status launch_own(const Context& context, CUstream stream, CUfunction function, uint64_t items,
                  void* parameters) {
  constexpr uint64_t threads = 256,
                     most_blocks = 4096;  // a block takes several rounds when there is more to do
  const auto blocks =
      static_cast<unsigned>(std::clamp<uint64_t>((items + threads - 1) / threads, 1, most_blocks));
  void* arguments[] = {parameters};
  TN_CUDA_IN(context, cuLaunchKernel, function, blocks, 1, 1, static_cast<unsigned>(threads), 1, 1, 0, stream,
             arguments, nullptr);
  return {};
}

// A box with ordinary memory on one side: a row, or rows at a fixed distance, at a time.
class Rows {
 public:
  Rows(Gpu& gpu, CUstream stream, bool from_pageable, const tn_copy_shape& shape)
      : gpu_(gpu), context_(*gpu.context()), stream_(stream), from_pageable_(from_pageable), shape_(shape) {}

  Status run(CUdeviceptr dst, CUdeviceptr src, uint32_t dim = 0) const {
    const uint32_t left = shape_.rank - dim;
    if (left == 1 || dim == 3) return row(dst, src);  // four dims at most
    if (left == 2 && !from_pageable_ && is_pitched(dim)) return plane(dst, src, dim);
    for (uint64_t i = 0; i < shape_.extent[dim]; ++i)
      TN_TRY(run(dst + i * shape_.dst_stride[dim], src + i * shape_.src_stride[dim], dim + 1));
    return {};
  }

 private:
  uint64_t width() const noexcept { return shape_.extent[shape_.rank - 1]; }
  bool is_pitched(uint32_t dim) const noexcept {
    return std::min(shape_.dst_stride[dim], shape_.src_stride[dim]) >= width();
  }

  Status row(CUdeviceptr dst, CUdeviceptr src) const {
    if (from_pageable_) return gpu_.staging().upload(stream_, dst, host_pointer(src), width());
    TN_CUDA_IN(context_, cuMemcpyAsync, dst, src, width(), stream_);
    return {};
  }

  Status plane(CUdeviceptr dst, CUdeviceptr src, uint32_t dim) const {
    CUDA_MEMCPY2D box{};
    box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    box.srcDevice = src;
    box.srcPitch = shape_.src_stride[dim];
    box.dstDevice = dst;
    box.dstPitch = shape_.dst_stride[dim];
    box.WidthInBytes = width();
    box.Height = shape_.extent[dim];
    TN_CUDA_IN(context_, cuMemcpy2DAsync, &box, stream_);
    return {};
  }

  Gpu& gpu_;
  const Context& context_;
  CUstream stream_;
  bool from_pageable_;
  const tn_copy_shape& shape_;
};

}  // namespace

bool is_pageable(const Context& context, const tn_span& span) noexcept {
  if (span.space != TN_SPACE_HOST_ADDRESS) return false;
  CUmemorytype type{};  // stays 0 for memory that the driver does not know
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* into[] = {&type};
  const CUresult result = context.driver().cuPointerGetAttributes(1, which, into, span.offset);
  return result != CUDA_SUCCESS || type == CUmemorytype{};
}

Status copy(Gpu& gpu, CUstream stream, const tn_span& dst, const tn_span& src) {
  Context& context = *gpu.context();
  if (crosses(dst, src)) return between_devices(context, stream, dst, src);
  const bool to = is_pageable(context, dst);
  if (!to && is_pageable(context, src))
    return gpu.staging().upload(stream, place(dst), host_pointer(src.offset), src.bytes);
  if (to) TN_TRY(arrive(context, stream));
  TN_CUDA_IN(context, cuMemcpyAsync, place(dst), place(src), dst.bytes, stream);
  // The driver fills ordinary memory before it returns, as far as it says; make sure of it.
  if (to) TN_CUDA_IN(context, cuStreamSynchronize, stream);
  return {};
}

Status copy_box(Gpu& gpu, CUstream stream, const tn_span& dst, const tn_span& src,
                const tn_copy_shape& shape) {
  Context& context = *gpu.context();
  const bool from = is_pageable(context, src), to = is_pageable(context, dst);
  if (from || to) {
    if (to) TN_TRY(arrive(context, stream));
    TN_TRY(Rows(gpu, stream, from && !to, shape).run(place(dst), place(src)));
    if (to) TN_CUDA_IN(context, cuStreamSynchronize, stream);
    return {};
  }
  BoxParameters box{};
  box.dst = place(dst);
  box.src = place(src);
  uint64_t bytes = 1;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t lead = 4 - shape.rank;
    box.extent[i] = i < lead ? 1 : shape.extent[i - lead];
    box.dst_stride[i] = i < lead ? 0 : shape.dst_stride[i - lead];
    box.src_stride[i] = i < lead ? 0 : shape.src_stride[i - lead];
    bytes *= box.extent[i];
  }
  return launch_own(context, stream, gpu.copy_box(), bytes / 16 + 1, &box);
}

Status fill(Gpu& gpu, CUstream stream, const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes) {
  const Context& context = *gpu.context();
  const CUdeviceptr to = place(dst);
  const uint64_t count = dst.bytes / pattern_bytes;
  if (to % pattern_bytes == 0 && pattern_bytes <= 4) {
    if (pattern_bytes == 1)
      TN_CUDA_IN(context, cuMemsetD8Async, to, static_cast<unsigned char>(pattern), count, stream);
    if (pattern_bytes == 2)
      TN_CUDA_IN(context, cuMemsetD16Async, to, static_cast<unsigned short>(pattern), count, stream);
    if (pattern_bytes == 4)
      TN_CUDA_IN(context, cuMemsetD32Async, to, static_cast<unsigned>(pattern), count, stream);
    return {};
  }
  FillParameters wanted{};
  wanted.dst = to;
  wanted.bytes = dst.bytes;
  wanted.pattern = pattern;
  wanted.pattern_bytes = pattern_bytes;
  return launch_own(context, stream, gpu.fill(), dst.bytes / 16 + 1, &wanted);
}

}  // namespace tenon::cuda
