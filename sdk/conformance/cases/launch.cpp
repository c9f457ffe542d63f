// SPDX-License-Identifier: Apache-2.0
// launch.cpp: launches that must be refused, and launches that must arrive whatever happens around them.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/gate.hpp"
#include "conformance/open_files.hpp"
#include "conformance/ops/sample.hpp"

#include <chrono>
#include <cstring>
#include <thread>

namespace tenon::conform {

namespace {

// A launch that must be TN_INVALID and write nothing.
void refuses_launch(Context& t, const Bench& bench, const Stream& stream, std::span<const tn_span> bindings,
                    const std::string& what) {
  const Status said = bench.launch(stream, bindings);
  t.check(said.code() == TN_INVALID, what, ": expected TN_INVALID, got ",
          said.ok() ? "TN_OK" : said.message());
}

constexpr std::byte mark{0x6B};
constexpr uint64_t launch_soon =
    40'000'000;  // ns: long enough for a stream that is not held back to have run

Status marked(const Stream& stream, const Memory& memory) {
  return upload(stream, memory.span(), Bytes(memory.bytes(), mark));
}
Status still_marked(Context& t, const Stream& stream, const Memory& memory) {
  const Bytes found = TN_TRY(download(stream, memory.span()));
  return t.require(found == Bytes(memory.bytes(), mark), "a refused launch wrote into its output");
}

// Launches a kernel that needs a workspace without one, and with one that is too small.
Status starve(Context& t, const Device& device, const Trial& trial, const Kernel& kernel) {
  const tn_kernel_info info = TN_TRY(kernel.info());
  std::vector<Memory> memory;
  std::vector<tn_span> bindings;
  for (const auto* list : {&trial.inputs, &trial.outputs}) {
    for (const Operand& operand : *list) {
      if (operand.absent) continue;
      memory.push_back(TN_TRY(device.alloc(extent(operand) * element_bytes(operand.dtype))));
      bindings.push_back(memory.back().span());
    }
  }
  const Memory workspace = TN_TRY(workspace_of(device, info));
  const Stream stream = TN_TRY(device.stream());
  const tn_span small = workspace.span(0, info.workspace_bytes - 1);
  for (const tn_span* given : {static_cast<const tn_span*>(nullptr), &small}) {
    const Status said = kernel.launch(stream, bindings, given);
    t.check(said.code() == TN_INVALID, told(trial), " needs ", info.workspace_bytes,
            " bytes of workspace; launched with ", given != nullptr ? "one byte less" : "none", " it said ",
            said.ok() ? "TN_OK" : said.message());
  }
  return stream.finish();
}

}  // namespace

CONFORM_CASE(1, "launch: a wrong number of bindings is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 50));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(marked(stream, bench.output));
  std::vector<tn_span> bindings = bench.bindings();
  bindings.push_back(bench.output.span());
  for (const size_t count : {0u, 1u, 3u}) {
    refuses_launch(t, bench, stream, {bindings.data(), count}, words(count, " bindings where 2 belong"));
  }
  return still_marked(t, stream, bench.output);
}

CONFORM_CASE(1, "launch: a binding that is too small, misplaced or misaligned is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 50));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Memory roomy = TN_TRY(device.alloc(sample.output_bytes() + sample.input_bytes() + 64));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(marked(stream, bench.output));
  const uint64_t in = sample.input_bytes(), out = sample.output_bytes();
  static std::byte host[4096];
  const struct {
    const char* what;
    size_t binding;
    tn_span span;
  } wrong[] = {{"an input a byte too small", 0, bench.input.span(0, in - 1)},
               {"an output a byte too small", 1, bench.output.span(0, out - 1)},
               {"an input that ends outside of its memory", 0, bench.input.span(8, in)},
               {"an output that ends outside of its memory", 1, bench.output.span(8, out)},
               {"an offset that overflows", 1, bench.output.span(UINT64_MAX - 1, out)},
               {"no memory for the output", 1, {nullptr, 0, out, TN_SPACE_MEMORY, 0}},
               {"an output in host memory", 1, host_span(host, out)},
               {"a space that does not exist", 1, {bench.output.handle(), 0, out, 99, 0}}};
  for (const auto& one : wrong) {
    std::vector<tn_span> bindings = bench.bindings();
    bindings[one.binding] = one.span;
    refuses_launch(t, bench, stream, bindings, one.what);
  }
  if (element_bytes(sample.trial().inputs[0].dtype) > 1) {
    const tn_span bindings[] = {roomy.span(1, in), bench.output.span()};
    refuses_launch(t, bench, stream, bindings, "an input at an odd offset");
  }
  return still_marked(t, stream, bench.output);
}

CONFORM_CASE(1, "launch: a binding off the alignment its tensor promises is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 50));
  Trial promising = sample.trial();
  promising.inputs[0].alignment = promising.outputs[0].alignment = 64;
  const OneNode node(promising);
  const tn_support said = TN_TRY(supports(t, device, node.fragment()));
  TN_TRY(t.needs(said.verdict != TN_SUPPORT_NO, "kernel.alignment", said.reason));
  const Kernel kernel = TN_TRY(compile(t, device, node.fragment()));
  const tn_kernel_info info = TN_TRY(kernel.info());
  const Memory input = TN_TRY(device.alloc(sample.input_bytes() + 64))
  , output = TN_TRY(device.alloc(sample.output_bytes() + 64))
  , workspace = TN_TRY(workspace_of(device, info));
  const Stream stream = TN_TRY(device.stream());
  const tn_span span = workspace.span(), *given = info.workspace_bytes != 0 ? &span : nullptr;
  const auto launched = [&](uint64_t in, uint64_t out) {
    const tn_span bindings[] = {input.span(in, sample.input_bytes()),
                                output.span(out, sample.output_bytes())};
    return kernel.launch(stream, bindings, given);
  };
  for (const auto& [in, out] : {std::pair<uint64_t, uint64_t>{32, 0}, {0, 8}}) {
    const Status refused = launched(in, out);
    t.check(refused.code() == TN_INVALID, "offsets ", in, " and ", out, " under a promise of 64: got ",
            refused.ok() ? "TN_OK" : refused.message());
  }
  TN_TRY(launched(64, 0));
  return stream.finish();
}

// A plugin may have to compile for most ops before one asks for a workspace.
CONFORM_CASE(1, "launch: a missing or small workspace is TN_INVALID", .deadlines = 4) {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  for (const Row& row : op_rows) {
    if (!is_single(row)) continue;
    for (const uint32_t dtype : subjects(row)) {
      Choices choices(t.random());
      const Trial trial = draw_trial(row, dtype, Form::strided, 2000, choices);
      const OneNode node(trial);
      if (TN_TRY(supports(t, device, node.fragment())).verdict == TN_SUPPORT_NO) continue;
      const Kernel kernel = TN_TRY(compile(t, device, node.fragment()));
      if (TN_TRY(kernel.info()).workspace_bytes != 0) return starve(t, device, trial, kernel);
    }
  }
  return t.unsupported("kernel.workspace", "no kernel of one node asks for a workspace");
}

CONFORM_CASE(1, "launch: those of one stream run in order, with the copies between them") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 333));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const uint64_t rounds = t.quick() ? 20 : 200;
  const Memory kept = TN_TRY(device.alloc(sample.output_bytes() * rounds));
  const Stream stream = TN_TRY(device.stream());
  int64_t files = 0;
  for (uint64_t i = 0; i < rounds; ++i) {
    const Bytes numbers = sample.input(i);
    TN_TRY(stream.copy(bench.input.span(), host_span(numbers.data(), numbers.size())));
    TN_TRY(bench.launch(stream));
    TN_TRY(stream.copy(kept.span(i * sample.output_bytes(), sample.output_bytes()), bench.output.span()));
    if (i == 0) files = open_files();
  }
  check_open_files(t, files, static_cast<int64_t>(rounds) - 1, "a launch");
  const Bytes found = TN_TRY(download(stream, kept.span()));
  for (uint64_t i = 0; i < rounds; ++i) {
    const std::span<const std::byte> one(found.data() + i * sample.output_bytes(), sample.output_bytes());
    if (!sample.expect(t, i, one, words("launch ", i, " of ", rounds))) break;
  }
  return {};
}

CONFORM_CASE(1, "launch: one kernel runs on many streams at once") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 5000));
  const Bench shared = TN_TRY(Bench::make(t, device, sample));
  const uint64_t rounds = t.quick() ? 20 : 200;
  const auto work = [&](uint64_t who) -> Status {
    const Memory input = TN_TRY(device.alloc(sample.input_bytes()))
    , output = TN_TRY(device.alloc(sample.output_bytes()))
    , workspace = TN_TRY(workspace_of(device, shared.info));
    const Stream stream = TN_TRY(device.stream());
    const tn_span bindings[] = {input.span(), output.span()}, span = workspace.span();
    TN_TRY(upload(stream, input.span(), sample.input(who)));
    for (uint64_t i = 0; i < rounds; ++i) {
      TN_TRY(shared.kernel.launch(stream, bindings, shared.info.workspace_bytes != 0 ? &span : nullptr));
    }
    sample.expect(t, who, TN_TRY(download(stream, output.span())), words("stream ", who, " of 4"));
    return {};
  };
  std::vector<std::thread> threads;
  for (uint64_t who = 0; who < 4; ++who) {
    threads.emplace_back([&, who] {
      const Status said = work(who);
      t.check(said.ok(), "stream ", who, ": ", said.message());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {};
}

CONFORM_CASE(1, "launch: a kernel may be destroyed and its arrays reused while it waits") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 100));
  Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(upload(stream, bench.input.span(), sample.input(5)));
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(stream));
  std::vector<tn_span> bindings = bench.bindings();
  {
    Opener opener(gate);  // a plugin may block in either call until the stream goes on
    TN_TRY(bench.launch(stream, bindings));
    std::memset(bindings.data(), 0xFF, bindings.size() * sizeof(tn_span));
    TN_TRY(bench.kernel.destroy());
  }
  sample.expect(t, 5, TN_TRY(download(stream, bench.output.span())),
                "a launch whose kernel was destroyed meanwhile");
  return {};
}

CONFORM_CASE(1, "launch: one that waits for a held producer has not run, and then sees what was produced") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 300));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Memory fresh = TN_TRY(device.alloc(sample.input_bytes()));
  const Stream producer = TN_TRY(device.stream())
  , consumer = TN_TRY(device.stream())
  , observer = TN_TRY(device.stream());
  TN_TRY(upload(producer, bench.input.span(), sample.input(1)));
  TN_TRY(upload(producer, fresh.span(), sample.input(7)));
  TN_TRY(marked(producer, bench.output));
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(producer));
  TN_TRY(producer.copy(bench.input.span(), fresh.span()));
  const uint64_t produced = TN_TRY(producer.record());
  TN_TRY(consumer.wait(producer, produced));
  TN_TRY(bench.launch(consumer));
  const uint64_t launched = TN_TRY(consumer.record());
  const Status early = consumer.sync(launched, launch_soon);
  t.check(early.code() == TN_TIMEOUT,
          "the launch ended before the value that its stream waits for: expected TN_TIMEOUT, got ",
          early.ok() ? "TN_OK" : early.message());
  const Bytes before = TN_TRY(download(observer, bench.output.span()));
  t.check(before == Bytes(before.size(), mark),
          "the launch wrote its output before its stream was let go: it did not wait");
  gate.open();
  sample.expect(t, 7, TN_TRY(download(consumer, bench.output.span())),
                "a launch behind the copy that makes its input");
  return producer.finish();
}

CONFORM_CASE(1, "launch: enqueueing does not block while the stream is held") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 100));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(upload(stream, bench.input.span(), sample.input(4)));
  TN_TRY(bench.launch(stream));  // whatever a first launch has to prepare
  TN_TRY(stream.finish());
  TN_TRY(marked(stream, bench.output));
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(stream));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) TN_TRY(bench.launch(stream));
  const uint64_t value = TN_TRY(stream.record());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  t.check(took.count() < 3000, "50 launches behind a held stream took ", took.count(), " ms");
  t.check(stream.sync(value, 0).code() == TN_TIMEOUT, "the launches ended although their stream is held");
  gate.open();
  TN_TRY(stream.sync(value));
  sample.expect(t, 4, TN_TRY(download(stream, bench.output.span())), "the last of 50 launches");
  return {};
}

CONFORM_CASE(1, "launch: a stream of another handle of the device is TN_INVALID or serves") {
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 100));
  const auto other = TN_TRY(second_handle(t));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Stream own = TN_TRY(device.stream())
  , foreign = TN_TRY(other->stream());
  TN_TRY(upload(own, bench.input.span(), sample.input(9)));
  const Status said = bench.launch(foreign);
  t.check(said.ok() || said.code() == TN_INVALID, "a launch on another handle's stream: ", said.message());
  if (!said.ok()) return {};
  TN_TRY(foreign.finish());
  sample.expect(t, 9, TN_TRY(download(own, bench.output.span())), "a launch on another handle's stream");
  return {};
}

CONFORM_CASE(1, "launch: kernels of many elements, past every 32-bit count of bytes", .deadlines = 24) {
  const Device& device = *TN_TRY(t.device());
  const Sample small = TN_TRY(Sample::find(t, device, 8));
  if (t.quick()) return t.skip("it moves over 8 GiB: not under --quick");
  const uint64_t size = element_bytes(small.trial().inputs[0].dtype);
  const auto elements = static_cast<int64_t>(((uint64_t{1} << 32) + 4096) / size);
  const Sample sample = TN_TRY(small.resized(t, device, elements));
  const tn_memory_info memory = TN_TRY(device.memory_info());
  const uint64_t needed = sample.input_bytes() + sample.output_bytes(), reserve = uint64_t{1} << 28;
  if (memory.free_bytes < needed + reserve)
    return t.skip(words("it needs ", needed + reserve, " bytes; ", memory.free_bytes, " are free"));
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  const Stream stream = TN_TRY(device.stream());
  // Pieces of eight elements at both ends and around the places where 31 and 32 bits end.
  const uint64_t piece = small.input_bytes(), result = small.output_bytes() / 8;
  const uint64_t ends[] = {0, (uint64_t{1} << 31) / size, ((uint64_t{1} << 32) - 64) / size,
                           (uint64_t{1} << 32) / size, static_cast<uint64_t>(elements) - 8};
  TN_TRY(stream.fill(bench.input.span(), 0, 1));
  TN_TRY(stream.fill(bench.output.span(), 0x5C, 1));
  const uint64_t long_ns = t.settings().long_patience_ns();
  TN_TRY(stream.sync(TN_TRY(stream.record()), long_ns));
  for (const uint64_t at : ends) {
    const Bytes numbers = small.input(at);
    TN_TRY(stream.copy(bench.input.span(at * size, piece), host_span(numbers.data(), numbers.size())));
  }
  TN_TRY(bench.launch(stream));
  TN_TRY(stream.sync(TN_TRY(stream.record()), long_ns));
  for (const uint64_t at : ends) {
    const Bytes found = TN_TRY(download(stream, bench.output.span(at * result, 8 * result)));
    small.expect(t, at, found, words("elements ", at, " to ", at + 7, " of ", elements));
  }
  return {};
}

}  // namespace tenon::conform
