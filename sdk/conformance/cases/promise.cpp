// SPDX-License-Identifier: Apache-2.0
// promise.cpp: values that the host completes, and what a failure told through one does.
#include "conformance/case.hpp"
#include "conformance/objects.hpp"

namespace tenon::conform {

namespace {

Status needs_promises(Context& t, const Device& device) {
  return t.needs(device.api().stream.promise != nullptr, "stream.promise",
                 "the plugin has no promise and signal");
}

}  // namespace

CONFORM_CASE(0, "promise: it is reached when it is kept, and not before") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_promises(t, device));
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream promises = TN_TRY(device.stream())
  , worker = TN_TRY(device.stream());
  for (uint64_t round = 1; round <= 20; ++round) {
    const uint64_t promised = TN_TRY(promises.promise());
    t.check(TN_TRY(promises.completed()) < promised, "promise ", promised, " is reached before it is kept");
    TN_TRY(worker.wait(promises, promised));
    TN_TRY(worker.fill(memory.span(), round, 1));
    const uint64_t done = TN_TRY(worker.record());
    const Status early = worker.sync(done, round == 1 ? 40'000'000 : 0);
    t.check(early.code() == TN_TIMEOUT, "round ", round,
            ": the waiting stream ran before the promise was kept");
    TN_TRY(promises.signal(promised));
    TN_TRY(worker.sync(done));
    TN_TRY(promises.sync(promised));
  }
  const Bytes found = TN_TRY(download(worker, memory.span()));
  same_bytes(t, Bytes(64, std::byte{20}), found, "what the waiting stream wrote");
  return {};
}

CONFORM_CASE(0, "promise: a second signal of one value is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_promises(t, device));
  const Stream promises = TN_TRY(device.stream());
  const uint64_t promised = TN_TRY(promises.promise());
  TN_TRY(promises.signal(promised));
  t.check(promises.signal(promised).code() == TN_INVALID, "a second signal must be TN_INVALID");
  t.check(promises.signal(promised, TN_ABORTED).code() == TN_INVALID,
          "a second signal with a failure must be TN_INVALID");
  t.check(promises.signal(promised + 1).code() == TN_INVALID,
          "a signal of a value nobody promised must be TN_INVALID");
  return promises.sync(promised);
}

CONFORM_CASE(0, "promise: promises complete in order of value") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_promises(t, device));
  const Stream promises = TN_TRY(device.stream());
  const uint64_t first = TN_TRY(promises.promise())
  , second = TN_TRY(promises.promise())
  , third = TN_TRY(promises.promise());
  t.check(first < second && second < third, "promised values ", first, ", ", second, ", ", third,
          " do not increase");
  TN_TRY(promises.signal(third));
  TN_TRY(promises.signal(second));
  const uint64_t early = TN_TRY(promises.completed());
  t.check(early < first, "promise ", first, " is open, and query says ", early);
  TN_TRY(promises.signal(first));
  TN_TRY(promises.sync(third));
  t.check(TN_TRY(promises.completed()) >= third, "all promises are kept, and query says less than ", third);
  return {};
}

CONFORM_CASE(0, "promise: a promise kept with a failure poisons its stream") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_promises(t, device));
  const Stream other = TN_TRY(device.stream());
  Stream promises = TN_TRY(device.stream());
  const uint64_t kept = TN_TRY(promises.promise())
  , broken = TN_TRY(promises.promise());
  TN_TRY(promises.signal(kept));
  TN_TRY(promises.sync(kept));
  TN_TRY(promises.signal(broken, TN_ABORTED));
  promises.forgive();
  const Status said = promises.sync(broken, 1'000'000'000);
  t.check(said.code() == TN_ABORTED, "sync of a promise kept with TN_ABORTED: expected TN_ABORTED, got ",
          said.ok() ? "TN_OK" : said.message());
  if (!said.ok())
    t.check((said.error().flags & TN_ERROR_ASYNC) != 0, "the failure is not flagged TN_ERROR_ASYNC");
  const auto later = promises.promise();
  t.check(!later.ok(), "a poisoned stream made another promise");
  TN_TRY(other.finish());  // nobody else is hurt
  return {};
}

CONFORM_CASE(0, "promise: an untold failure is told by destroy") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_promises(t, device));
  Stream promises = TN_TRY(device.stream());
  const uint64_t broken = TN_TRY(promises.promise());
  TN_TRY(promises.signal(broken, TN_DEVICE_LOST));
  const Status said = promises.destroy();
  t.check(said.code() == TN_DEVICE_LOST,
          "destroy of a stream whose failure nobody was told: expected TN_DEVICE_LOST, got ",
          said.ok() ? "TN_OK" : said.message());
  return {};
}

CONFORM_CASE(0, "promise: a stream can be destroyed while its promise is open") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_promises(t, device));
  Stream promises = TN_TRY(device.stream());
  TN_TRY(promises.promise());
  static_cast<void>(promises.destroy(TN_DESTROY_ABANDON));
  Stream another = TN_TRY(device.stream());
  return another.finish();
}

}  // namespace tenon::conform
