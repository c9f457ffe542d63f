// SPDX-License-Identifier: Apache-2.0
// saved.cpp: saved kernels that come back cut or with a bit turned over, and room that is too small to save into.
//
// Invariant: bytes end where a page ends that faults, so a reader that trusts them is seen.
#include "conformance/case.hpp"
#include "conformance/guard.hpp"
#include "conformance/ops/sample.hpp"

#include <cstring>

namespace tenon::conform {

namespace {

struct SavedKernel {
  Sample sample;
  Bench bench;
  Bytes bytes;

  static Result<SavedKernel> make(Context& t, const Device& device) {
    Sample sample = TN_TRY(Sample::find(t, device, 64));
    const tn_kernel_api& api = device.api().kernel;
    TN_TRY(t.needs(api.save != nullptr && api.load != nullptr, "kernel.save", "the plugin saves no kernels"));
    Bench bench = TN_TRY(Bench::make(t, device, sample));
    uint64_t size = 0;
    TN_TRY(t.call("kernel.save for its size",
                  [&](tn_error* e) { return api.save(bench.kernel.handle(), nullptr, 0, &size, e); }));
    Bytes bytes(size);
    TN_TRY(t.call("kernel.save", [&](tn_error* e) {
      return api.save(bench.kernel.handle(), bytes.data(), size, &size, e);
    }));
    TN_TRY(t.require(size == bytes.size() && size > 0, "kernel.save wrote ", size,
                     " bytes after it had asked for ", bytes.size()));
    return SavedKernel{std::move(sample), std::move(bench), std::move(bytes)};
  }
  // What `load` says to other bytes: a refusal with TN_MISMATCH or TN_INVALID; or, where `may_load`, a kernel that
  // computes what the saved one did.
  Status offer(Context& t, const Device& device, std::span<const std::byte> given, const std::string& what,
               bool may_load) const {
    const Fenced room(given.size());
    if (!given.empty()) std::memcpy(room.data(), given.data(), given.size());
    const OneNode node(sample.trial());
    tn_kernel* loaded = nullptr;
    const Status said = t.call(words("kernel.load of ", what), [&](tn_error* e) {
      return device.api().kernel.load(device.handle(), &node.fragment(), room.data(), given.size(), &loaded,
                                      e);
    });
    if (!said.ok()) {
      t.check(said.code() == TN_MISMATCH || said.code() == TN_INVALID, what,
              ": expected TN_MISMATCH or TN_INVALID, got ", said.message());
      t.check(loaded == nullptr, what, ": a refused load stored a kernel");
      return {};
    }
    Bench other = TN_TRY(Bench::make(t, device, sample));
    other.kernel = Kernel(t, device.api(), loaded);
    if (!t.check(may_load, what, ": expected TN_MISMATCH or TN_INVALID, got a kernel")) return {};
    const Stream stream = TN_TRY(device.stream());
    TN_TRY(upload(stream, other.input.span(), sample.input(3)));
    TN_TRY(other.launch(stream));
    sample.expect(t, 3, TN_TRY(download(stream, other.output.span())), words("a kernel loaded from ", what));
    return {};
  }
};

}  // namespace

CONFORM_CASE(1, "kernel: a saved one that was cut is refused") {
  const Device& device = *TN_TRY(t.device());
  const SavedKernel saved = TN_TRY(SavedKernel::make(t, device));
  const size_t size = saved.bytes.size();
  for (const size_t length : {size_t{0}, size_t{1}, size / 2, size - 1}) {
    TN_TRY(saved.offer(t, device, std::span(saved.bytes).first(length),
                       words("the first ", length, " of ", size, " bytes"), false));
  }
  return {};
}

CONFORM_CASE(1, "kernel: a saved one with a bit turned over is refused, or computes the same") {
  const Device& device = *TN_TRY(t.device());
  const SavedKernel saved = TN_TRY(SavedKernel::make(t, device));
  const size_t size = saved.bytes.size();
  std::vector<size_t> places{0, size / 2, size - 1};
  for (int i = 0; i < (t.quick() ? 5 : 40); ++i) places.push_back(t.random().below(size));
  for (const size_t place : places) {
    Bytes garbled = saved.bytes;
    garbled[place] ^= static_cast<std::byte>(1u << t.random().below(8));
    TN_TRY(saved.offer(t, device, garbled, words("byte ", place, " of ", size, " with a bit turned over"),
                       true));
  }
  Bytes longer = saved.bytes;
  longer.push_back(std::byte{0});
  TN_TRY(saved.offer(t, device, longer, "one byte more", true));
  return saved.offer(t, device, Bytes(size, std::byte{0xFF}), words(size, " bytes of 255"), false);
}

CONFORM_CASE(1, "kernel: one is saved into no more room than there is") {
  const Device& device = *TN_TRY(t.device());
  const SavedKernel saved = TN_TRY(SavedKernel::make(t, device));
  const tn_kernel_api& api = device.api().kernel;
  for (const uint64_t room : {uint64_t{1}, saved.bytes.size() / 2, saved.bytes.size() - 1}) {
    const Fenced small(room);
    uint64_t bytes = 0;
    const Status said = t.call(words("kernel.save into ", room, " bytes"), [&](tn_error* e) {
      return api.save(saved.bench.kernel.handle(), small.data(), room, &bytes, e);
    });
    t.check(said.ok() || said.code() == TN_INVALID, "kernel.save into ", room, " of ", saved.bytes.size(),
            " bytes: ", said.message());
  }
  t.refuses(TN_INVALID, "kernel.save(kernel = NULL)", [&](tn_error* e) {
    uint64_t bytes = 0;
    return api.save(nullptr, nullptr, 0, &bytes, e);
  });
  return {};
}

}  // namespace tenon::conform
