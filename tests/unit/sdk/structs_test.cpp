// SPDX-License-Identifier: Apache-2.0
// structs_test.cpp: structs that are shorter or longer than ours, and links that insist.
// Invariant: not a byte outside the caller's size is read or written.
#include "scripted.hpp"

using namespace scripted;

namespace {

// `Struct` inside a larger block whose other bytes must survive.
template <class Struct>
struct Fenced {
  alignas(Struct) unsigned char bytes[sizeof(Struct) + 64];
  explicit Fenced(size_t size) {
    std::memset(bytes, 0xA5, sizeof bytes);
    get()->size = static_cast<uint32_t>(size);
  }
  Struct* get() { return reinterpret_cast<Struct*>(bytes); }
  bool untouched_from(size_t first) const {
    return std::all_of(bytes + first, bytes + sizeof bytes, [](unsigned char b) { return b == 0xA5; });
  }
};

// Calls with every size from the bare size member to beyond the struct; nothing past the size may change.
template <class Struct, class Call>
void every_size(Call&& call) {
  for (size_t size = sizeof(uint32_t); size <= sizeof(Struct) + 32; ++size) {
    Fenced<Struct> out(size);
    const int32_t code = call(out.get());
    CHECK_MESSAGE(code == TN_OK, "size ", size);
    CHECK(out.get()->size == size);
    CHECK_MESSAGE(out.untouched_from(std::min(size, sizeof(Struct))), "size ", size);
  }
  Fenced<Struct> unset(0);
  CHECK(call(unset.get()) == TN_INVALID);
  CHECK(unset.untouched_from(sizeof(uint32_t)));
}

tn_link insistent(const char* id) { return {nullptr, id, sizeof(tn_link), TN_LINK_MUST_UNDERSTAND}; }

}  // namespace

TEST_CASE("structs: what is filled in never passes the caller's size") {
  Bench b;
  every_size<tn_device_info>([&](auto* out) { return b.plugin->device->info(b.plugin, 0, out, &b.error); });
  every_size<tn_device_limits>([&](auto* out) { return b.plugin->device->limits(b.device, out, &b.error); });
  every_size<tn_memory_info>(
      [&](auto* out) { return b.plugin->device->memory_info(b.device, out, &b.error); });
  every_size<tn_support>(
      [&](auto* out) { return b.plugin->kernel->supports(b.device, &b.add.fragment(), out, &b.error); });
  every_size<tn_kernel_info>([&](auto* out) { return b.plugin->kernel->info(b.kernel, out, &b.error); });
  every_size<tn_comm_limits>([&](auto* out) { return b.plugin->comm->limits(b.comm, out, &b.error); });
}

TEST_CASE("structs: a full struct is filled in full") {
  Bench b;
  Fenced<tn_device_info> info(sizeof(tn_device_info) + 32);
  b.good(b.plugin->device->info(b.plugin, 1, info.get(), &b.error));
  CHECK(std::string(info.get()->name) == "scripted 1");
  CHECK(info.get()->numa_node == -1);
  CHECK(info.get()->compute_units == 3);
  Fenced<tn_support> answer(sizeof(tn_support));
  b.good(b.plugin->kernel->supports(b.device, &b.add.fragment(), answer.get(), &b.error));
  CHECK(answer.get()->verdict == TN_SUPPORT_NATIVE);
  CHECK(answer.get()->cost_ns == 5.0);
  CHECK(answer.get()->workspace_bytes == 64);
}

TEST_CASE("structs: an error is cut to the caller's size and ends in NUL") {
  Bench b;
  script.acts["Stream::fill"] = [] { return Status(TN_BUSY, std::string(600, 'x')); };
  const tn_span dst = b.span(0, 8);
  for (size_t size = 0; size <= sizeof(tn_error) + 32; ++size) {
    Fenced<tn_error> out(size);
    CHECK(b.plugin->stream->fill(b.stream, &dst, 0, 1, out.get()) == TN_BUSY);
    CHECK_MESSAGE(out.untouched_from(std::clamp(size, sizeof(uint32_t), sizeof(tn_error))), "size ", size);
    if (size > offsetof(tn_error, message))
      CHECK(std::memchr(out.get()->message, 0,
                        std::min(size, sizeof(tn_error)) - offsetof(tn_error, message)) != nullptr);
  }
}

TEST_CASE("structs: options that are NULL, short or long are read as far as they go") {
  Bench b;
  tn_stream* stream = nullptr;
  for (const uint32_t size :
       {4u, 8u, uint32_t{sizeof(tn_stream_options)}, uint32_t{sizeof(tn_stream_options)} + 32}) {
    Fenced<tn_stream_options> options(size);
    std::memset(options.bytes + 4, 0xA5, sizeof options.bytes - 4);  // rubbish outside, zero inside
    std::memset(options.bytes + 4, 0, std::min<size_t>(size, sizeof(tn_stream_options)) - 4);
    b.good(b.plugin->stream->create(b.device, options.get(), &stream, &b.error));
    b.good(b.plugin->stream->destroy(stream, TN_DESTROY_COMPLETE, &b.error));
  }
  Fenced<tn_fragment> fragment(offsetof(tn_fragment, identity));
  std::memcpy(fragment.bytes + 4, reinterpret_cast<const char*>(&b.add.fragment()) + 4,
              offsetof(tn_fragment, identity) - 4);
  tn_kernel* kernel = nullptr;
  b.good(b.plugin->kernel->compile(b.device, fragment.get(), nullptr, &kernel, &b.error));
  b.good(b.plugin->kernel->destroy(kernel, &b.error));
}

TEST_CASE("structs: an unknown link that must be understood is refused by name") {
  Bench b;
  const tn_link unknown = insistent("test.unknown/1");
  tn_device* device = nullptr;
  tn_stream* stream = nullptr;
  tn_kernel* kernel = nullptr;
  tn_comm* comm = nullptr;
  const tn_device_options open{sizeof(tn_device_options), 0, &unknown};
  CHECK(b.plugin->device->open(b.plugin, 0, &open, &device, &b.error) == TN_UNSUPPORTED);
  CHECK(b.said("test.unknown/1"));
  const tn_stream_options create{sizeof(tn_stream_options), 0, nullptr, &unknown};
  CHECK(b.plugin->stream->create(b.device, &create, &stream, &b.error) == TN_UNSUPPORTED);
  auto compile = tenon::author::outgoing<tn_compile_options>();
  compile.next = &unknown;
  CHECK(b.plugin->kernel->compile(b.device, &b.add.fragment(), &compile, &kernel, &b.error) ==
        TN_UNSUPPORTED);
  auto join = tenon::author::outgoing<tn_comm_options>();
  join.next = &unknown;
  CHECK(b.plugin->comm->create(b.device, 0, 1, "12345678", 8, &join, &comm, &b.error) == TN_UNSUPPORTED);
  tn_fragment fragment = b.add.fragment();
  fragment.next = &unknown;
  CHECK(b.plugin->kernel->compile(b.device, &fragment, nullptr, &kernel, &b.error) == TN_UNSUPPORTED);
  CHECK(script.calls == std::vector<std::string>{"Plugin::device_count", "Device::comm_id_bytes"});
}

TEST_CASE("structs: a link on a tensor or a node counts as much") {
  Bench b;
  const tn_link unknown = insistent("test.unknown/1");
  tn_fragment fragment = b.add.fragment();
  std::vector<tn_tensor> tensors(fragment.tensors, fragment.tensors + fragment.tensor_count);
  tensors[1].next = &unknown;
  fragment.tensors = tensors.data();
  auto answer = tenon::author::outgoing<tn_support>();
  CHECK(b.plugin->kernel->supports(b.device, &fragment, &answer, &b.error) == TN_UNSUPPORTED);
  fragment = b.add.fragment();
  tn_node node = fragment.nodes[0];
  node.next = &unknown;
  fragment.nodes = &node;
  CHECK(b.plugin->kernel->supports(b.device, &fragment, &answer, &b.error) == TN_UNSUPPORTED);
  CHECK(script.calls.empty());
}

TEST_CASE("structs: a link that the plugin knows, or that does not insist, is let through") {
  Bench b;
  tn_link known = insistent("test.known/1");
  const tn_link relaxed{&known, "test.unknown/1", sizeof(tn_link), 0};
  const tn_stream_options options{sizeof(tn_stream_options), 0, nullptr, &relaxed};
  tn_stream* stream = nullptr;
  b.good(b.plugin->stream->create(b.device, &options, &stream, &b.error));
  b.good(b.plugin->stream->destroy(stream, TN_DESTROY_COMPLETE, &b.error));
  CHECK(tenon::author::find_link(&relaxed, "test.known/1") == &known);
  CHECK(tenon::author::find_link(&relaxed, "test.other/1") == nullptr);
}
