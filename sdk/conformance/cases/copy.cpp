// SPDX-License-Identifier: Apache-2.0
// copy.cpp: plain copies: every direction, odd places and sizes, what is refused, what is consumed when.
#include "conformance/case.hpp"
#include "conformance/gate.hpp"
#include "conformance/guard.hpp"

#include <cstring>

namespace tenon::conform {

namespace {

// The kinds this device offers.
Result<std::vector<uint32_t>> kinds_of(const Device& device) {
  std::vector<uint32_t> out;
  for (const uint32_t kind : {TN_MEMORY_DEVICE, TN_MEMORY_HOST, TN_MEMORY_MANAGED}) {
    const auto memory = device.alloc(64, kind);
    if (memory.ok()) out.push_back(kind);
    if (!memory.ok() && memory.code() != TN_UNSUPPORTED) return Status(memory.error());
  }
  return out;
}

// The payload of `guarded` by its address on the device.
Result<tn_span> by_address(const Guarded& guarded) {
  const uint64_t base = TN_TRY(guarded.memory().address());
  return tn_span{nullptr, base + guarded.span().offset, guarded.bytes(), TN_SPACE_DEVICE_ADDRESS, 0};
}

Status refuse_span(Context& t, const Stream& stream, const tn_span& bad, const tn_span& good,
                   const std::string& what) {
  t.check(stream.copy(bad, good).code() == TN_INVALID, "a destination with ", what, " must be TN_INVALID");
  t.check(stream.copy(good, bad).code() == TN_INVALID, "a source with ", what, " must be TN_INVALID");
  return stream.finish();
}

}  // namespace

CONFORM_CASE(0, "copy: every direction arrives whole") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  const auto kinds = TN_TRY(kinds_of(device));
  for (const uint32_t from : kinds) {
    for (const uint32_t to : kinds) {
      const uint64_t bytes = t.random().between(1, 300'000);
      const Bytes sent = random_bytes(t.random(), bytes);
      const Guarded a = TN_TRY(Guarded::make(device, stream, bytes, 0, from));
      const Guarded b = TN_TRY(Guarded::make(device, stream, bytes, 0, to));
      TN_TRY(upload(stream, a.span(), sent));
      TN_TRY(stream.copy(b.span(), a.span()));
      TN_TRY(b.expect(t, stream, sent, words(bytes, " bytes from memory of kind ", from, " to kind ", to)));
    }
  }
  return {};
}

CONFORM_CASE(0, "copy: between two pageable host addresses") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  for (const uint64_t bytes : {1, 4095, 70'001}) {
    const Bytes sent = random_bytes(t.random(), bytes);
    const Fenced from(bytes), to(bytes);
    std::memcpy(from.data(), sent.data(), bytes);
    TN_TRY(stream.copy(to.span(), from.span()));
    TN_TRY(stream.finish());
    same_bytes(t, sent, to.bytes(), words(bytes, " bytes from host to host"));
  }
  return {};
}

CONFORM_CASE(0, "copy: odd offsets and sizes touch nothing else") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  for (int i = 0; i < (t.quick() ? 40 : 200); ++i) {
    const uint64_t bytes = t.random().chance(2) ? t.random().between(1, 70) : t.random().between(1, 5000);
    const uint64_t from = t.random().below(67), to = t.random().below(67);
    const Bytes sent = random_bytes(t.random(), bytes);
    const Guarded a = TN_TRY(Guarded::make(device, stream, bytes, from));
    const Guarded b = TN_TRY(Guarded::make(device, stream, bytes, to));
    TN_TRY(upload(stream, a.span(), sent));
    TN_TRY(stream.copy(b.span(), a.span()));
    const std::string where = words(bytes, " bytes from offset ", from, " to offset ", to);
    TN_TRY(a.expect(t, stream, sent, where + ": the source"));
    TN_TRY(b.expect(t, stream, sent, where));
  }
  return {};
}

CONFORM_CASE(0, "copy: a host range is never read or written past its end") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  for (const uint64_t bytes : {1, 2, 3, 5, 8, 13, 16, 31, 33, 64, 100, 4095, 4097, 9999}) {
    const Memory memory = TN_TRY(device.alloc(bytes));
    const Fenced from(bytes), to(bytes);
    t.random().fill(from.bytes());
    TN_TRY(stream.copy(memory.span(), from.span()));
    TN_TRY(stream.copy(to.span(), memory.span()));
    TN_TRY(stream.finish());
    same_bytes(t, from.bytes(), to.bytes(), words(bytes, " bytes that end where the page ends"));
  }
  return {};
}

CONFORM_CASE(0, "copy: zero bytes are legal everywhere") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  const Memory memory = TN_TRY(device.alloc(100));
  const tn_span nothing{nullptr, 0, 0, TN_SPACE_MEMORY, 0};
  const std::byte byte{1};
  const tn_span ends[] = {memory.span(0, 0), memory.span(100, 0), nothing, host_span(nullptr, 0),
                          host_span(&byte, 0)};
  for (const tn_span& to : ends) {
    for (const tn_span& from : ends) {
      const Status said = stream.copy(to, from);
      t.check(said.ok(), "zero bytes from space ", from.space, " offset ", hex(from.offset), " to space ",
              to.space, " offset ", hex(to.offset), ": ", said.message());
    }
  }
  return stream.finish();
}

CONFORM_CASE(0, "copy: different sizes are TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  const Memory a = TN_TRY(device.alloc(100))
  , b = TN_TRY(device.alloc(100));
  for (const auto& [to, from] : {std::pair{100, 99}, {99, 100}, {0, 1}, {1, 0}}) {
    const Status said =
        stream.copy(a.span(0, static_cast<uint64_t>(to)), b.span(0, static_cast<uint64_t>(from)));
    t.check(said.code() == TN_INVALID, from, " bytes into ", to, ": expected TN_INVALID, got ",
            said.ok() ? "TN_OK" : said.message());
  }
  return stream.finish();
}

CONFORM_CASE(0, "copy: a span that leaves its memory is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  const Memory memory = TN_TRY(device.alloc(1000))
  , other = TN_TRY(device.alloc(2000));
  const std::pair<uint64_t, uint64_t> outside[] = {{0, 1001},
                                                   {1, 1000},
                                                   {1000, 1},
                                                   {999, 2},
                                                   {UINT64_MAX, 1},
                                                   {UINT64_MAX - 1, 2},
                                                   {uint64_t{1} << 63, 8}};
  for (const auto& [offset, bytes] : outside) {
    TN_TRY(refuse_span(t, stream, memory.span(offset, bytes), other.span(0, bytes),
                       words("offset ", offset, " and ", bytes, " of 1000 bytes")));
  }
  return {};
}

CONFORM_CASE(0, "copy: a space that does not exist, or a missing memory, is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Stream stream = TN_TRY(device.stream());
  const Memory memory = TN_TRY(device.alloc(64));
  tn_span strange = memory.span();
  strange.space = 77;
  TN_TRY(refuse_span(t, stream, strange, memory.span(), "space 77"));
  const tn_span missing{nullptr, 0, 64, TN_SPACE_MEMORY, 0};
  return refuse_span(t, stream, missing, memory.span(), "no memory");
}

CONFORM_CASE(0, "copy: a pageable source is consumed on return") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(1 << 20));
  const Stream stream = TN_TRY(device.stream());
  for (const uint64_t bytes : {1, 64, 5000, 1 << 20}) {
    const Bytes sent = random_bytes(t.random(), bytes);
    Bytes source = sent;
    Gate gate = TN_TRY(Gate::make(t, device));
    TN_TRY(gate.hold(stream));
    // A plugin may keep the bytes, or return only when its stream has read them: then somebody must let the stream go.
    Opener opener(gate);
    const Status said = stream.copy(memory.span(0, bytes), host_span(source.data(), bytes));
    std::fill(source.begin(), source.end(), std::byte{0});
    opener.open();
    TN_TRY(t.require(said.ok(), said.message()));
    const Bytes found = TN_TRY(download(stream, memory.span(0, bytes)));
    same_bytes(t, sent, found, words("a source of ", bytes, " bytes, overwritten after the copy returned"));
  }
  return {};
}

CONFORM_CASE(0, "copy: copies of one stream run in order") {
  const Device& device = *TN_TRY(t.device());
  constexpr uint64_t bytes = 40'000;
  constexpr size_t places = 6;
  std::vector<Memory> memories;
  for (size_t i = 0; i < places; ++i) memories.push_back(TN_TRY(device.alloc(bytes)));
  const Stream stream = TN_TRY(device.stream());
  std::vector<Bytes> model;
  for (const Memory& memory : memories) {
    model.push_back(random_bytes(t.random(), bytes));
    TN_TRY(upload(stream, memory.span(), model.back()));
  }
  for (int i = 0; i < (t.quick() ? 200 : 2000); ++i) {
    const size_t from = t.random().below(places), to = (from + 1 + t.random().below(places - 1)) % places;
    const uint64_t length = t.random().between(1, bytes), a = t.random().below(bytes - length + 1),
                   b = t.random().below(bytes - length + 1);
    TN_TRY(stream.copy(memories[to].span(b, length), memories[from].span(a, length)));
    std::memcpy(model[to].data() + b, model[from].data() + a, length);
  }
  for (size_t i = 0; i < places; ++i) {
    same_bytes(t, model[i], TN_TRY(download(stream, memories[i].span())),
               words("memory ", i, " after a chain of copies"));
  }
  return {};
}

CONFORM_CASE(0, "copy: by device address where ADDRESSABLE is declared") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(t.needs(device.has(TN_FEATURE_ADDRESSABLE), "feature.ADDRESSABLE",
                 "the plugin does not declare ADDRESSABLE"));
  const Stream stream = TN_TRY(device.stream());
  const Guarded a = TN_TRY(Guarded::make(device, stream, 5000))
  , b = TN_TRY(Guarded::make(device, stream, 5000));
  const Bytes sent = random_bytes(t.random(), 5000);
  const tn_span first = TN_TRY(by_address(a))
  , second = TN_TRY(by_address(b));
  TN_TRY(upload(stream, first, sent));
  TN_TRY(a.expect(t, stream, sent, "host to device address"));
  TN_TRY(stream.copy(second, a.span()));
  TN_TRY(b.expect(t, stream, sent, "memory to device address"));
  const Bytes back = TN_TRY(download(stream, second));
  same_bytes(t, sent, back, "device address to host");
  return {};
}

CONFORM_CASE(0, "copy: a large copy arrives whole") {
  const Device& device = *TN_TRY(t.device());
  const tn_memory_info info = TN_TRY(device.memory_info());
  const uint64_t wanted = t.quick() ? uint64_t{16} << 20 : uint64_t{200} << 20;
  const uint64_t bytes = std::min(wanted, info.free_bytes / 4) | 1;
  const Stream stream = TN_TRY(device.stream());
  const Memory a = TN_TRY(device.alloc(bytes))
  , b = TN_TRY(device.alloc(bytes));
  const Bytes sent = random_bytes(t.random(), bytes);
  TN_TRY(upload(stream, a.span(), sent));
  TN_TRY(stream.copy(b.span(), a.span()));
  same_bytes(t, sent, TN_TRY(download(stream, b.span())), words(bytes, " bytes"));
  return {};
}

}  // namespace tenon::conform
