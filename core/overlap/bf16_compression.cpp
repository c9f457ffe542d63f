// SPDX-License-Identifier: Apache-2.0
// bf16_compression.cpp: a communication hook: half the bytes on the wire, sums in f32.
//
// A ring of all-reduce in bf16 sends as much and rounds once for each rank; here a number is rounded twice.
#include <tenon/comm_hook.hpp>

#include <map>
#include <memory>

namespace tenon {
namespace {

constexpr uint64_t f32_bytes = 4, bf16_bytes = 2;
constexpr uint64_t block_unit = 32;  // elements: blocks begin at 64 bytes

TensorSpec row(DType dtype, uint64_t elements) { return {dtype, {static_cast<int64_t>(elements)}}; }

Result<Kernel> cast_kernel(Device& device, uint64_t elements, DType from, DType to) {
  FragmentBuilder f("compress");
  f.output(f.node(Op::cast, {f.input(row(from, elements))}, row(to, elements), {{"dtype", to}}));
  const Fragment fragment = TN_TRY(f.build());
  return device.compile(fragment);
}

// Of one block of each rank: accumulated in f32, rounded once.
Result<Kernel> sum_kernel(Device& device, uint32_t ranks, uint64_t block) {
  FragmentBuilder f("compressed sum");
  const auto blocks = f.input({bf16, {int64_t{ranks}, static_cast<int64_t>(block)}});
  f.output(f.node(Op::sum, {blocks}, row(bf16, block), {{"axes", std::vector<int64_t>{0}}}));
  const Fragment fragment = TN_TRY(f.build());
  return device.compile(fragment);
}

tn_span part(const Buffer& buffer, uint64_t offset, uint64_t bytes) {
  tn_span out = buffer.span();
  out.offset += offset;
  out.bytes = bytes;
  return out;
}

class Bf16Compression {
 public:
  explicit Bf16Compression(Device device) : device_(std::move(device)) {}

  Status all_reduce(Communicator& comm, Stream& stream, const tn_span& gradients, DType dtype) {
    if (dtype != f32 || comm.size() == 1) return comm.all_reduce(stream, gradients, gradients, dtype);
    const uint64_t elements = gradients.bytes / f32_bytes;
    const Kernels& kernels = *TN_TRY(kernels_for(elements, comm.size()));
    const uint64_t block = kernels.block * bf16_bytes, all = block * comm.size(),
                   held = elements * bf16_bytes;
    const Buffer packed = TN_TRY(device_.allocate(stream, all))
    , got = TN_TRY(device_.allocate(stream, all));
    const tn_span own = part(packed, comm.rank() * block, block), sent = part(packed, 0, held);
    TN_TRY(stream.fill(part(packed, held, all - held)));
    TN_TRY(kernels.down.run(stream, {gradients, sent}));
    TN_TRY(comm.submit(stream, {CommOp::all_to_all(packed, got, bf16, comm.size())}));
    TN_TRY(kernels.sum.run(stream, {got, own}));
    TN_TRY(comm.all_gather(stream, own, packed, bf16));
    return kernels.up.run(stream, {sent, gradients});
  }

 private:
  struct Kernels {
    uint64_t block = 0;  // elements that one rank sums
    Kernel down{}, sum{}, up{};
  };

  Result<const Kernels*> kernels_for(uint64_t elements, uint32_t ranks) {
    const auto found = kernels_.find(elements);
    if (found != kernels_.end()) return &found->second;
    Kernels made;
    const uint64_t unit = block_unit * ranks;
    made.block = (elements + unit - 1) / unit * block_unit;
    made.down = TN_TRY(cast_kernel(device_, elements, f32, bf16));
    made.sum = TN_TRY(sum_kernel(device_, ranks, made.block));
    made.up = TN_TRY(cast_kernel(device_, elements, bf16, f32));
    return &kernels_.emplace(elements, std::move(made)).first->second;
  }

  Device device_;
  std::map<uint64_t, Kernels> kernels_{};  // by elements
};

}  // namespace

CommHook bf16_compression(Device device) {
  const auto state = std::make_shared<Bf16Compression>(std::move(device));
  return {.name = "bf16_compression",
          .all_reduce = [state](Communicator& comm, Stream& stream, const tn_span& gradients, DType dtype) {
            return state->all_reduce(comm, stream, gradients, dtype);
          }};
}

}  // namespace tenon
