// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: the kernel table in words.
#include "conformance/ops/kernel.hpp"

#include "conformance/digest.hpp"

#include <tenon/author/kernel_table.hpp>

#include <cstring>

namespace tenon::conform {

namespace {

// What an identity is made over, as a flat list of bytes.
class Canonical {
 public:
  template <class Number>
  void add(const Number& value) {
    bytes(&value, sizeof value);
  }
  void bytes(const void* data, size_t count) {
    const auto* first = static_cast<const unsigned char*>(data);
    bytes_.insert(bytes_.end(), first, first + count);
  }
  void tensor(const tn_tensor& t) {
    for (const uint64_t field : {uint64_t{t.dtype}, uint64_t{t.rank}, uint64_t{t.layout}, uint64_t{t.flags},
                                 t.alignment, t.constant_bytes})
      add(field);
    if (t.dims != nullptr) bytes(t.dims, t.rank * sizeof(int64_t));
    add(t.strides != nullptr);
    if (t.strides != nullptr) bytes(t.strides, t.rank * sizeof(int64_t));
    if (t.constant != nullptr) bytes(t.constant, t.constant_bytes);
  }
  void attribute(const tn_attribute& a) {
    add(std::strlen(a.name));
    bytes(a.name, std::strlen(a.name));
    add(a.kind);
    add(a.count);
    add(a.i64);
    add(a.f64);
    const bool wide = a.kind == TN_ATTRIBUTE_I64S || a.kind == TN_ATTRIBUTE_F64S;
    if (a.data != nullptr) bytes(a.data, a.count * (wide ? 8 : 1));
  }
  void node(const tn_node& n) {
    for (const uint32_t field : {n.op, n.version, n.input_count, n.output_count, n.attribute_count})
      add(field);
    bytes(n.inputs, n.input_count * sizeof(uint32_t));
    bytes(n.outputs, n.output_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < n.attribute_count; ++i) attribute(n.attributes[i]);
  }
  std::string digest() const { return conform::digest(bytes_); }

 private:
  std::vector<unsigned char> bytes_;
};

unsigned nibble(char hex) { return static_cast<unsigned>(hex <= '9' ? hex - '0' : hex - 'a' + 10); }

}  // namespace

void set_identity(tn_fragment& f) {
  Canonical all;
  for (const uint32_t count : {f.tensor_count, f.node_count, f.input_count, f.output_count, f.alias_count})
    all.add(count);
  for (uint32_t i = 0; i < f.tensor_count; ++i) all.tensor(f.tensors[i]);
  for (uint32_t i = 0; i < f.node_count; ++i) all.node(f.nodes[i]);
  all.bytes(f.inputs, f.input_count * sizeof(uint32_t));
  all.bytes(f.outputs, f.output_count * sizeof(uint32_t));
  all.bytes(f.aliases, f.alias_count * sizeof(tn_alias));
  const std::string hex = all.digest();
  for (size_t i = 0; i < sizeof f.identity; ++i)
    f.identity[i] = static_cast<uint8_t>(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
}

void write_attributes(author::FragmentBuilder::Node& node, const std::vector<AttributeValue>& attributes) {
  for (const AttributeValue& a : attributes) {
    switch (a.kind) {
      case TN_ATTRIBUTE_I64:
        node.integer(a.name, a.integer);
        break;
      case TN_ATTRIBUTE_F64:
        node.real(a.name, a.real);
        break;
      case TN_ATTRIBUTE_DTYPE:
        node.dtype(a.name, static_cast<uint32_t>(a.integer));
        break;
      case TN_ATTRIBUTE_STRING:
        node.string(a.name, a.text);
        break;
      default:
        node.integers(a.name, a.integers);
    }
  }
}

OneNode::OneNode(const Trial& trial) : builder_(trial.row->name) {
  std::vector<uint32_t> inputs, outputs;
  for (const Operand& o : trial.inputs) {
    inputs.push_back(o.absent     ? TN_ABSENT
                     : o.is_first ? inputs.front()
                                  : builder_.input(o.dtype, o.dims, o.strides));
  }
  while (!inputs.empty() && inputs.back() == TN_ABSENT) inputs.pop_back();
  for (const Operand& o : trial.outputs)
    outputs.push_back(o.absent ? TN_ABSENT : builder_.output(o.dtype, o.dims, o.strides));
  auto& node = builder_.node(trial.row->op, inputs, outputs);
  write_attributes(node, trial.attributes);
  for (const tn_alias& pair : trial.aliases) builder_.alias(pair.input, pair.output);
  fragment_ = builder_.fragment();
  tensors_.assign(fragment_.tensors, fragment_.tensors + fragment_.tensor_count);
  fragment_.tensors = tensors_.data();
  auto tensor = tensors_.begin();
  for (const auto* list : {&trial.inputs, &trial.outputs}) {
    for (const Operand& o : *list) {
      if (!o.absent && !o.is_first) (tensor++)->alignment = o.alignment;
    }
  }
  set_identity(fragment_);
}

Result<tn_kernel_info> Kernel::info() const {
  tn_kernel_info out{};
  out.size = sizeof out;
  TN_TRY(t_->call("kernel.info", [&](tn_error* e) { return api_->kernel.info(handle_, &out, e); }));
  return out;
}

Status Kernel::launch(const Stream& stream, std::span<const tn_span> bindings,
                      const tn_span* workspace) const {
  return t_->call("kernel.launch", [&](tn_error* e) {
    return api_->kernel.launch(handle_, stream.handle(), bindings.data(),
                               static_cast<uint32_t>(bindings.size()), workspace, e);
  });
}

Status Kernel::destroy() {
  if (handle_ == nullptr) return {};
  tn_kernel* const handle = std::exchange(handle_, nullptr);
  Status gone = t_->call("kernel.destroy", [&](tn_error* e) { return api_->kernel.destroy(handle, e); });
  t_->check(gone.ok(), "destroying a kernel: ", gone.message());
  return gone;
}

Status needs_kernels(Context& t, const Device& device) {
  return t.needs(device.api().kernel.compile != nullptr, "kernel", "the plugin runs no kernels");
}

Result<tn_support> supports(Context& t, const Device& device, const tn_fragment& fragment) {
  tn_support out{};
  out.size = sizeof out;
  out.verdict = UINT32_MAX;
  TN_TRY(t.call(words("kernel.supports of ", fragment.name), [&](tn_error* e) {
    return device.api().kernel.supports(device.handle(), &fragment, &out, e);
  }));
  TN_TRY(t.require(out.verdict <= TN_SUPPORT_EMULATED, "kernel.supports stored verdict ", out.verdict,
                   ", which is none of the ABI's"));
  TN_TRY(
      t.require(strnlen(out.reason, sizeof out.reason) < sizeof out.reason, "tn_support.reason has no NUL"));
  const bool told = out.reason[0] != '\0' && out.reason != std::string_view(author::no_reason);
  TN_TRY(t.require(out.verdict == TN_SUPPORT_NATIVE || told, "kernel.supports gives no reason with verdict ",
                   out.verdict));
  return out;
}

Result<Kernel> compile(Context& t, const Device& device, const tn_fragment& fragment,
                       uint64_t workspace_limit) {
  tn_compile_options options{};
  options.size = sizeof options;
  options.workspace_limit = workspace_limit;
  tn_kernel* handle = nullptr;
  TN_TRY(t.call(words("kernel.compile of ", fragment.name), [&](tn_error* e) {
    return device.api().kernel.compile(device.handle(), &fragment, &options, &handle, e);
  }));
  TN_TRY(t.require(handle != nullptr, "kernel.compile said TN_OK and stored no kernel"));
  return Kernel(t, device.api(), handle);
}

Result<Memory> workspace_of(const Device& device, const tn_kernel_info& info) {
  if (info.workspace_bytes == 0) return Memory();
  return device.alloc(info.workspace_bytes, TN_MEMORY_DEVICE, info.workspace_alignment);
}

}  // namespace tenon::conform
