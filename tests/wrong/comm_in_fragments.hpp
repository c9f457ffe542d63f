// SPDX-License-Identifier: Apache-2.0
// comm_in_fragments.hpp: collectives as nodes of a fragment for the cpu plugin, which has none: what stands before an
// all_reduce is one kernel, what stands behind it another, and the collective is submitted between them.
//
// Invariant: a fragment without a collective is the cpu plugin's own. One launch at a time: the kernel owns what lies between.
#pragma once

#include "wrong_comm.hpp"

#include <array>
#include <set>

namespace wrong {

// How the middle of a launch is done.
using Between = int32_t (*)(tn_comm* comm, tn_stream* stream, const tn_comm_op& op, tn_error* error);
inline Between& between() {
  static Between how = [](tn_comm* comm, tn_stream* stream, const tn_comm_op& op, tn_error* error) {
    return right().comm.submit(comm, stream, &op, 1, error);
  };
  return how;
}

// A part of a fragment, as a fragment.
struct Piece {
  tn_fragment fragment{};
  std::vector<uint32_t> inputs{}, outputs{};
  std::vector<uint32_t> bound{};  // which binding of the whole each input is; UINT32_MAX: what lies between

  void seal(char mark) {
    fragment.inputs = inputs.data();
    fragment.input_count = static_cast<uint32_t>(inputs.size());
    fragment.outputs = outputs.data();
    fragment.output_count = static_cast<uint32_t>(outputs.size());
    fragment.identity[0] ^= static_cast<uint8_t>(mark);
  }
  void read(uint32_t tensor, uint32_t binding) {
    for (uint32_t n = 0; n < fragment.node_count; ++n) {
      const tn_node& node = fragment.nodes[n];
      for (uint32_t i = 0; i < node.input_count; ++i) {
        if (node.inputs[i] != tensor) continue;
        inputs.push_back(tensor);
        bound.push_back(binding);
        return;
      }
    }
  }
};

inline uint32_t collective_at(const tn_fragment& f) {
  for (uint32_t n = 0; n < f.node_count; ++n) {
    if (f.nodes[n].op == TN_OP_all_reduce) return n;
  }
  return UINT32_MAX;
}

// Both pieces; whoever has nodes on both sides only.
inline std::array<Piece, 2> cut(const tn_fragment& f, uint32_t at) {
  std::array<Piece, 2> out{};
  out[0].fragment = out[1].fragment = f;
  out[0].fragment.node_count = at;
  out[1].fragment.nodes = f.nodes + at + 1;
  out[1].fragment.node_count = f.node_count - at - 1;
  out[1].read(f.nodes[at].outputs[0], UINT32_MAX);
  for (uint32_t i = 0; i < f.input_count; ++i) {
    for (Piece& piece : out) piece.read(f.inputs[i], i);
  }
  out[0].outputs = {f.nodes[at].inputs[0]};
  out[1].outputs.assign(f.outputs, f.outputs + f.output_count);
  out[0].seal(0x11);
  out[1].seal(0x22);
  return out;
}

struct Half {
  tn_kernel* kernel = nullptr;
  tn_memory* workspace = nullptr;
  tn_span room{};
  std::vector<uint32_t> bound{};
};

struct Joined {
  std::array<Half, 2> halves{};
  tn_comm* comm = nullptr;
  tn_memory* memory = nullptr;  // what is brought, and behind it what comes
  tn_comm_op op{};
  uint32_t inputs = 0;
};

inline std::set<tn_kernel*>& joined() {
  static auto* const all = new std::set<tn_kernel*>;  // outlives whatever the process destroys at its end
  return *all;
}
inline Joined* joined_of(tn_kernel* kernel) {
  const std::lock_guard lock(seats().mutex);
  return joined().count(kernel) != 0 ? reinterpret_cast<Joined*>(kernel) : nullptr;
}

inline int32_t destroy_joined(Joined* kernel) {
  for (Half& half : kernel->halves) {
    if (half.kernel != nullptr) right().kernel.destroy(half.kernel, nullptr);
    if (half.workspace != nullptr) right().device.free(half.workspace, nullptr);
  }
  if (kernel->memory != nullptr) right().device.free(kernel->memory, nullptr);
  delete kernel;
  return TN_OK;
}

inline int32_t compile_half(tn_device* device, const Piece& piece, const tn_compile_options* options,
                            Half& out, tn_error* error) {
  out.bound = piece.bound;
  tn_compile_options own = *options;
  own.comm_count = 0;
  own.comms = nullptr;
  int32_t code = right().kernel.compile(device, &piece.fragment, &own, &out.kernel, error);
  tn_kernel_info info{};
  info.size = sizeof info;
  if (code == TN_OK) code = right().kernel.info(out.kernel, &info, error);
  if (code != TN_OK || info.workspace_bytes == 0) return code;
  out.room = {nullptr, 0, info.workspace_bytes, TN_SPACE_MEMORY, 0};
  code = right().device.alloc(device, TN_MEMORY_DEVICE, info.workspace_bytes, info.workspace_alignment,
                              &out.workspace, error);
  out.room.memory = out.workspace;
  return code;
}

inline int32_t compile_joined(tn_device* device, const tn_fragment* f, const tn_compile_options* options,
                              tn_kernel** kernel, tn_error* error) {
  const uint32_t at = f != nullptr && kernel != nullptr ? collective_at(*f) : UINT32_MAX;
  if (at == UINT32_MAX) return right().kernel.compile(device, f, options, kernel, error);
  if (at == 0 || at + 1 == f->node_count || options == nullptr || options->comm_count != 1)
    return fail(error, TN_UNSUPPORTED, "an all_reduce stands between nodes, and has one communicator");
  const std::array<Piece, 2> pieces = cut(*f, at);
  auto made = new Joined{.comm = options->comms[0], .inputs = f->input_count};
  const tn_tensor& brought = f->tensors[f->nodes[at].inputs[0]];
  uint64_t count = 1;
  for (uint32_t i = 0; i < brought.rank; ++i) count *= static_cast<uint64_t>(brought.dims[i]);
  made->op.kind = TN_COMM_ALL_REDUCE;
  made->op.reduce = TN_REDUCE_SUM;
  made->op.dtype = brought.dtype;
  made->op.count = count;
  int32_t code = right().device.alloc(device, TN_MEMORY_DEVICE, 8 * count, 0, &made->memory, error);
  made->op.send = {made->memory, 0, 4 * count, TN_SPACE_MEMORY, 0};
  made->op.recv = {made->memory, 4 * count, 4 * count, TN_SPACE_MEMORY, 0};
  for (size_t i = 0; i < 2 && code == TN_OK; ++i)
    code = compile_half(device, pieces[i], options, made->halves[i], error);
  if (code != TN_OK) {
    destroy_joined(made);
    return code;
  }
  *kernel = reinterpret_cast<tn_kernel*>(made);
  const std::lock_guard lock(seats().mutex);
  joined().insert(*kernel);
  return TN_OK;
}

inline int32_t launch_half(const Half& half, tn_stream* stream, const tn_span* bindings,
                           const tn_span& middle, const std::vector<tn_span>& outputs, tn_error* error) {
  std::vector<tn_span> all;
  for (const uint32_t binding : half.bound) all.push_back(binding == UINT32_MAX ? middle : bindings[binding]);
  all.insert(all.end(), outputs.begin(), outputs.end());
  return right().kernel.launch(half.kernel, stream, all.data(), static_cast<uint32_t>(all.size()),
                               half.room.bytes != 0 ? &half.room : nullptr, error);
}

inline int32_t launch_joined(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t count,
                             const tn_span* workspace, tn_error* error) {
  const Joined* const own = joined_of(kernel);
  if (own == nullptr) return right().kernel.launch(kernel, stream, bindings, count, workspace, error);
  const std::vector<tn_span> outputs(bindings + own->inputs, bindings + count);
  int32_t code = launch_half(own->halves[0], stream, bindings, {}, {own->op.send}, error);
  if (code == TN_OK) code = between()(own->comm, stream, own->op, error);
  if (code == TN_OK) code = launch_half(own->halves[1], stream, bindings, own->op.recv, outputs, error);
  return code;
}

inline void put_collectives_in_fragments(Tables& all) {
  all.plugin.features |= TN_FEATURE_FRAGMENT_COLLECTIVES;
  all.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const uint32_t at = f != nullptr ? collective_at(*f) : UINT32_MAX;
    if (at == UINT32_MAX || at == 0 || at + 1 == f->node_count) return right().kernel.supports(d, f, out, e);
    int32_t code = TN_OK;
    for (const Piece& piece : cut(*f, at)) {
      if (code == TN_OK) code = right().kernel.supports(d, &piece.fragment, out, e);
      if (code == TN_OK && out->verdict == TN_SUPPORT_NO) return code;
    }
    return code;
  };
  all.kernel.compile = &compile_joined;
  all.kernel.launch = &launch_joined;
  all.kernel.info = [](tn_kernel* k, tn_kernel_info* info, tn_error* e) {
    if (const Joined* const own = joined_of(k)) {
      const int32_t code = right().kernel.info(own->halves[0].kernel, info, e);
      info->workspace_bytes = 0;  // it has its own
      return code;
    }
    return right().kernel.info(k, info, e);
  };
  all.kernel.destroy = [](tn_kernel* k, tn_error* e) {
    Joined* const own = joined_of(k);
    if (own == nullptr) return right().kernel.destroy(k, e);
    const std::lock_guard lock(seats().mutex);
    joined().erase(k);
    return destroy_joined(own);
  };
}

}  // namespace wrong
