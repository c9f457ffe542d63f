// SPDX-License-Identifier: Apache-2.0
// recording.hpp: what a recording holds, and how it lies in a file.
//
// File, version 1, all numbers little-endian:
//   "TENONREC", u32 version, u32 zero
//   then per step: u32 bytes of the payload, u32 check, payload = u8 kind, fields in the order of `fields()` below
//   at the end: a step of kind `end_kind` with the number of steps before it
// Fields: unsigned numbers as LEB128, signed ones zigzag first, doubles as 8 bytes, texts and arrays as count + elements.
// The check is the CRC-32 of the payload, begun with the check before it: a step that is changed, missing or out of place
// breaks the chain. Handles are numbers, one sequence for all kinds, never used twice; 0 is none.
// Invariant: steps stand in an order in which one thread can make the calls: what enables a call comes before it.
#pragma once

#include <tenon/abi.h>
#include <tenon/result.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tenon::layers::recording {

inline constexpr char magic[] = "TENONREC";
inline constexpr uint32_t version = 1;
inline constexpr uint8_t end_kind = 255;

using Id = uint64_t;
using Bytes = std::string;

// A span: bytes of a recorded memory, or (memory 0) of the host.
struct SpanNote {
  Id memory = 0;
  uint64_t offset = 0, bytes = 0;
};

struct TensorNote {
  uint32_t dtype = 0, layout = 0, flags = 0;
  uint64_t alignment = 0;
  std::vector<int64_t> dims, strides;  // no strides: dense
  Bytes constant;
};
struct AttributeNote {
  std::string name;
  uint32_t kind = 0;
  uint64_t count = 0;
  int64_t i64 = 0;
  double f64 = 0;
  Bytes data;
};
struct NodeNote {
  uint32_t op = 0, op_version = 0;
  std::vector<uint32_t> inputs, outputs;
  std::vector<AttributeNote> attributes;
  std::string name;
};
struct FragmentNote {
  std::string name;
  std::vector<TensorNote> tensors;
  std::vector<NodeNote> nodes;
  std::vector<uint32_t> inputs, outputs, aliases;  // aliases: input, output, input, output …
  Bytes identity;                                  // 32 bytes
};

// The steps. `code` is what the plugin returned.
struct Plugin {  // informative: whose calls these were
  static constexpr uint8_t kind = 1;
  std::string name, plugin_version;
};
struct Open {
  static constexpr uint8_t kind = 2;
  Id device = 0;
  uint32_t ordinal = 0;
  int32_t code = 0;
};
struct Close {
  static constexpr uint8_t kind = 3;
  Id device = 0;
  int32_t code = 0;
};
struct Alloc {
  static constexpr uint8_t kind = 4;
  Id device = 0, memory = 0;
  uint32_t memory_kind = 0;
  uint64_t bytes = 0, alignment = 0;
  int32_t code = 0;
};
struct Free {
  static constexpr uint8_t kind = 5;
  Id memory = 0;
  int32_t code = 0;
};
struct Create {
  static constexpr uint8_t kind = 6;
  Id device = 0, stream = 0;
  uint32_t priority = 0;
  std::string name;
  int32_t code = 0;
};
struct Destroy {
  static constexpr uint8_t kind = 7;
  Id stream = 0;
  uint32_t mode = 0;
  int32_t code = 0;
};
struct Box {  // of a strided copy; rank 0: a plain copy
  uint32_t rank = 0;
  std::vector<uint64_t> extent, dst_stride, src_stride;
};
struct Copy {
  static constexpr uint8_t kind = 8;
  Id stream = 0;
  SpanNote dst, src;
  Box box;
  Bytes data;    // of a host source
  Bytes digest;  // SHA-256 of what the host could read at the destination; empty: not known
  int32_t code = 0;
};
struct Fill {
  static constexpr uint8_t kind = 9;
  Id stream = 0;
  SpanNote dst;
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 0;
  int32_t code = 0;
};
struct Record {
  static constexpr uint8_t kind = 10;
  Id stream = 0;
  uint32_t flags = 0;
  uint64_t value = 0;
  int32_t code = 0;
};
struct Wait {
  static constexpr uint8_t kind = 11;
  Id stream = 0, other = 0;
  uint64_t value = 0;
  int32_t code = 0;
};
struct Reached {  // the host learned by sync or query that `value` is reached, or why it will not be
  static constexpr uint8_t kind = 12;
  Id stream = 0;
  uint64_t value = 0;
  int32_t code = 0;
};
struct Compile {
  static constexpr uint8_t kind = 13;
  Id device = 0, kernel = 0;
  FragmentNote fragment;
  double budget_ms = 0;
  uint64_t workspace_limit = 0;
  int32_t code = 0;
};
struct Launch {
  static constexpr uint8_t kind = 14;
  Id kernel = 0, stream = 0;
  std::vector<SpanNote> bindings;
  SpanNote workspace;
  int32_t code = 0;
};
struct DestroyKernel {
  static constexpr uint8_t kind = 15;
  Id kernel = 0;
  int32_t code = 0;
};
struct HostCall {  // what it did is not known
  static constexpr uint8_t kind = 16;
  Id stream = 0;
  int32_t code = 0;
};
struct Promise {
  static constexpr uint8_t kind = 17;
  Id stream = 0;
  uint64_t value = 0;
  int32_t code = 0;
};
struct Signal {
  static constexpr uint8_t kind = 18;
  Id stream = 0;
  uint64_t value = 0;
  int32_t signalled = 0;
};
struct Poke {  // bytes that the host wrote through an address, before the stream's next step reads them
  static constexpr uint8_t kind = 19;
  Id stream = 0;
  SpanNote dst;
  Bytes data;
};
struct Unknown {  // a call that a replay cannot make
  static constexpr uint8_t kind = 20;
  std::string what;
};

using Step = std::variant<Plugin, Open, Close, Alloc, Free, Create, Destroy, Copy, Fill, Record, Wait,
                          Reached, Compile, Launch, DestroyKernel, HostCall, Promise, Signal, Poke, Unknown>;

// The fields of each struct, in the order of the file.
void fields(auto& io, SpanNote& s) { io(s.memory, s.offset, s.bytes); }
void fields(auto& io, TensorNote& t) {
  io(t.dtype, t.layout, t.flags, t.alignment, t.dims, t.strides, t.constant);
}
void fields(auto& io, AttributeNote& a) { io(a.name, a.kind, a.count, a.i64, a.f64, a.data); }
void fields(auto& io, NodeNote& n) { io(n.op, n.op_version, n.inputs, n.outputs, n.attributes, n.name); }
void fields(auto& io, FragmentNote& f) {
  io(f.name, f.tensors, f.nodes, f.inputs, f.outputs, f.aliases, f.identity);
}
void fields(auto& io, Box& b) { io(b.rank, b.extent, b.dst_stride, b.src_stride); }
void fields(auto& io, Plugin& s) { io(s.name, s.plugin_version); }
void fields(auto& io, Open& s) { io(s.device, s.ordinal, s.code); }
void fields(auto& io, Close& s) { io(s.device, s.code); }
void fields(auto& io, Alloc& s) { io(s.device, s.memory, s.memory_kind, s.bytes, s.alignment, s.code); }
void fields(auto& io, Free& s) { io(s.memory, s.code); }
void fields(auto& io, Create& s) { io(s.device, s.stream, s.priority, s.name, s.code); }
void fields(auto& io, Destroy& s) { io(s.stream, s.mode, s.code); }
void fields(auto& io, Copy& s) { io(s.stream, s.dst, s.src, s.box, s.data, s.digest, s.code); }
void fields(auto& io, Fill& s) { io(s.stream, s.dst, s.pattern, s.pattern_bytes, s.code); }
void fields(auto& io, Record& s) { io(s.stream, s.flags, s.value, s.code); }
void fields(auto& io, Wait& s) { io(s.stream, s.other, s.value, s.code); }
void fields(auto& io, Reached& s) { io(s.stream, s.value, s.code); }
void fields(auto& io, Compile& s) {
  io(s.device, s.kernel, s.fragment, s.budget_ms, s.workspace_limit, s.code);
}
void fields(auto& io, Launch& s) { io(s.kernel, s.stream, s.bindings, s.workspace, s.code); }
void fields(auto& io, DestroyKernel& s) { io(s.kernel, s.code); }
void fields(auto& io, HostCall& s) { io(s.stream, s.code); }
void fields(auto& io, Promise& s) { io(s.stream, s.value, s.code); }
void fields(auto& io, Signal& s) { io(s.stream, s.value, s.signalled); }
void fields(auto& io, Poke& s) { io(s.stream, s.dst, s.data); }
void fields(auto& io, Unknown& s) { io(s.what); }

// A fragment as the file holds it. [any-thread; does not block]
FragmentNote note_of(const tn_fragment& fragment);

// Whether its indexes, dims and arrays fit together, so that a plugin may look at it. [any-thread; does not block]
bool sound(const FragmentNote& note);

// A recorded fragment as the ABI wants it; lives as long as this. Not movable: it points into itself.
class FragmentView {
 public:
  explicit FragmentView(const FragmentNote& note);
  FragmentView(const FragmentView&) = delete;
  FragmentView& operator=(const FragmentView&) = delete;
  const tn_fragment& abi() const noexcept { return fragment_; }

 private:
  std::vector<tn_tensor> tensors_;
  std::vector<tn_node> nodes_;
  std::vector<std::vector<tn_attribute>> attributes_;
  std::vector<tn_alias> aliases_;
  tn_fragment fragment_{};
};

// The first bytes of every recording.
std::string file_head();
// One step as it stands in the file; `check` is the last step's and becomes this one's.
std::string encode(Step step, uint32_t& check);
std::string encode_end(uint64_t steps, uint32_t& check);

// A whole recording.
struct Recording {
  std::vector<Step> steps;
  bool complete = true;  // false: it ends early, and that was accepted
};

// Reads `text`, the contents of a file. TN_INVALID for what is no recording, is damaged (naming the step and the byte), or
// ends early and `accept_truncated` is not set; TN_VERSION for a newer one. [any-thread; does not block; may fail]
Result<Recording> decode(std::string_view text, bool accept_truncated);

}  // namespace tenon::layers::recording
