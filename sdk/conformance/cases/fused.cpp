// SPDX-License-Identifier: Apache-2.0
// fused.cpp: level 2, what proves that a fragment ran fused.
//
// A launch is given the inputs, the outputs and the workspace that `info` declares, each with borders; there is no other
// memory of the kit's for an inner value. So a kernel whose verdict is not EMULATED and whose workspace is smaller than
// the inner values has kept them in none, unless it allocated some behind the caller's back: then the device's figures tell.
// Invariant: whoever keeps inner values in a workspace and says so has lost nothing but the tag.
#include "conformance/case.hpp"
#include "conformance/fragments/ask_group.hpp"
#include "conformance/fragments/chain.hpp"
#include "conformance/fragments/draw_group.hpp"
#include "conformance/fragments/reckon.hpp"
#include "conformance/fragments/vocabulary.hpp"
#include "conformance/ops/buffer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace tenon::conform {

namespace {

constexpr double slow_answer_ns = 1e6;  // the ABI asks for 5 µs

struct Compiled {
  Kernel kernel{};
  Proof proof{};
};

Result<Compiled> compiled(Context& t, const Device& device, const Group& group) {
  const WholeGroup whole(group);
  const tn_support said = TN_TRY(supports(t, device, whole.fragment()));
  TN_TRY(t.require(said.verdict != TN_SUPPORT_NO, told(group),
                   ": kernel.supports changed its answer to no: ", said.reason));
  Compiled out;
  out.kernel = TN_TRY(compile(t, device, whole.fragment()));
  const tn_kernel_info info = TN_TRY(out.kernel.info());
  TN_TRY(t.require(strnlen(info.engine, sizeof info.engine) < sizeof info.engine,
                   "tn_kernel_info.engine has no NUL"));
  TN_TRY(t.require(info.engine[0] != '\0', "tn_kernel_info.engine is empty: it says who runs the fragment"));
  out.proof = {.verdict = said.verdict,
               .workspace = info.workspace_bytes,
               .inner = group.inner_bytes(),
               .engine = info.engine};
  return out;
}

std::string told(const Proof& proof) {
  return words("engine '", proof.engine, "' asks for a workspace of ", proof.workspace,
               " bytes where inner values take ", proof.inner,
               proof.verdict == TN_SUPPORT_EMULATED ? ", and the verdict is EMULATED" : "");
}

// The device's figures around a launch: memory that grew by an inner value or more is where it went.
class Figures {
 public:
  Figures(Context& t, const Device& device, uint64_t inner)
      : t_(t), device_(device), most_(std::max<uint64_t>(inner, 1)) {}
  Status begin() {
    before_ = TN_TRY(device_.memory_info())
    .used_here_bytes;
    return {};
  }
  Status look(const char* when) {
    const uint64_t now = TN_TRY(device_.memory_info())
    .used_here_bytes;
    return t_.require(
        now < before_ + most_, when, " the device holds ", now - before_,
        " bytes more than the kit asked for: inner values are kept in memory that no workspace tells of");
  }

 private:
  Context& t_;
  const Device& device_;
  uint64_t most_, before_ = 0;
};

// Launches in memory that is all there, and judges the last value.
Status run_shown(Context& t, const Device& device, const Group& group, const Compiled& made) {
  const Stream stream = TN_TRY(device.stream());
  Reckoning reckoned(group);
  reckoned.all();
  std::vector<Buffer> buffers;
  for (const uint32_t value : group.inputs) {
    buffers.push_back(TN_TRY(buffer_of(device, stream, group.operand(value))));
    TN_TRY(upload(stream, buffers.back().memory.span(),
                  image_of(group.operand(value), buffers.back().at, reckoned.value(value).tensor)));
  }
  const uint32_t result = group.outputs[0];
  buffers.push_back(TN_TRY(buffer_of(device, stream, group.operand(result))));
  const tn_kernel_info info = TN_TRY(made.kernel.info());
  const Memory workspace = TN_TRY(workspace_of(device, info));
  std::vector<tn_span> bindings;
  for (const Buffer& buffer : buffers) bindings.push_back(buffer.memory.span());
  const tn_span span = workspace.span();
  Figures figures(t, device, made.proof.inner);
  TN_TRY(figures.begin());
  TN_TRY(made.kernel.launch(stream, bindings, info.workspace_bytes != 0 ? &span : nullptr));
  TN_TRY(figures.look("with the launch in flight"));
  TN_TRY(stream.finish());
  TN_TRY(figures.look("after the launch"));
  const Bytes found = TN_TRY(buffers.back().memory.read(t, stream, "the result"));
  const Fared fared =
      compare(reckoned.value(result), reckoned.value(result), tensor_of(buffers.back(), found));
  t.check(fared.story.empty(), conform::told(group), ": ", fared.story);
  return t.require(fared.told > 0, "no element of the result can be told");
}

}  // namespace

CONFORM_CASE(2, "fused: a chain of elementwise nodes keeps its inner values in no memory") {
  const Device& device = *TN_TRY(t.device());
  const Group group = TN_TRY(find_chain(t, device, 6, {t.quick() ? 50'000 : 500'000}));
  const Compiled made = TN_TRY(compiled(t, device, group));
  // Five inner values: a fifth of them is one too many.
  const bool shown = made.proof.shown() && made.proof.workspace < made.proof.inner / 5;
  if (shown) TN_TRY(run_shown(t, device, group, made));
  return t.needs(shown, "fused.chain", told(made.proof));
}

CONFORM_CASE(2, "fused: a reduction keeps what it reduces in no memory") {
  const Device& device = *TN_TRY(t.device());
  const int64_t side = t.quick() ? 250 : 900;
  const Group group = TN_TRY(find_folded(t, device, side, side + 1));
  const Compiled made = TN_TRY(compiled(t, device, group));
  if (made.proof.shown()) TN_TRY(run_shown(t, device, group, made));
  return t.needs(made.proof.shown(), "fused.reduction", told(made.proof));
}

CONFORM_CASE(2, "fused: inner values larger than the device compile, and the workspace tells the truth") {
  const Device& device = *TN_TRY(t.device());
  const Group small = TN_TRY(find_folded(t, device, 64, 65));
  const bool in_workspace = !TN_TRY(compiled(t, device, small))
  .proof.shown();
  const uint64_t total = TN_TRY(device.memory_info())
  .total_bytes;
  int64_t side = 1 << 10;
  while (static_cast<uint64_t>(side) * static_cast<uint64_t>(side) <= total) side *= 2;
  const Group large = resized(small, side, side + 1);
  const WholeGroup whole(large);
  const tn_support said = TN_TRY(supports(t, device, whole.fragment()));
  const auto made = compile(t, device, whole.fragment());
  if (!made.ok()) {
    return t.require(made.code() == TN_NO_MEMORY || made.code() == TN_UNSUPPORTED, conform::told(large),
                     " may be refused with TN_UNSUPPORTED or TN_NO_MEMORY: ", made.message());
  }
  const tn_kernel_info info = TN_TRY(made->info());
  const Proof proof{.verdict = said.verdict,
                    .workspace = info.workspace_bytes,
                    .inner = large.inner_bytes(),
                    .engine = info.engine};
  return t.require(!in_workspace || proof.workspace >= proof.inner, conform::told(large), ": ", told(proof),
                   "; over 64 × 65 elements they lay in the workspace, so it is too small now");
}

CONFORM_CASE(2, "fused: a limit on the workspace is kept, whatever the nodes") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  const Vocabulary* const known = TN_TRY(Vocabulary::of(t, device));
  const GroupForm form{
      .most_nodes = 8, .broadcast = true, .reductions = true, .several = true, .known = known};
  for (int i = 0; i < (t.quick() ? 8 : 40); ++i) {
    Choices choices(t.random());
    const Group group = draw_group(form, 3000, choices);
    const WholeGroup whole(group);
    if (TN_TRY(supports(t, device, whole.fragment())).verdict == TN_SUPPORT_NO) continue;
    for (const uint64_t limit : {uint64_t{0}, uint64_t{1000}}) {
      const auto made = compile(t, device, whole.fragment(), limit);
      if (!made.ok()) {
        t.check(made.code() == TN_UNSUPPORTED, conform::told(group), " within ", limit,
                " bytes: ", made.message());
        continue;
      }
      const uint64_t asked = TN_TRY(made->info())
      .workspace_bytes;
      t.check(asked <= limit, conform::told(group), " was to need ", limit, " bytes of workspace and needs ",
              asked);
    }
  }
  return t.require(true, "");
}

CONFORM_CASE(2, "fused: one kernel runs on several streams at once, each with a workspace of its own") {
  const Device& device = *TN_TRY(t.device());
  const Group group = TN_TRY(find_chain(t, device, 4, {t.quick() ? 5'000 : 100'000}));
  const Compiled made = TN_TRY(compiled(t, device, group));
  const tn_kernel_info info = TN_TRY(made.kernel.info());
  Reckoning reckoned(group);
  reckoned.all();
  constexpr size_t lanes = 3;
  std::vector<Memory> workspaces;
  std::vector<Buffer> inputs, outputs;
  std::vector<Stream> streams;
  for (size_t i = 0; i < lanes; ++i) {
    streams.push_back(TN_TRY(device.stream()));
    workspaces.push_back(TN_TRY(workspace_of(device, info)));
    inputs.push_back(TN_TRY(buffer_of(device, streams[i], group.operand(0))));
    outputs.push_back(TN_TRY(buffer_of(device, streams[i], group.operand(group.outputs[0]))));
    TN_TRY(upload(streams[i], inputs[i].memory.span(),
                  image_of(group.operand(0), inputs[i].at, reckoned.value(0).tensor)));
  }
  for (int run = 0; run < 4; ++run) {
    for (size_t i = 0; i < lanes; ++i) {
      const tn_span bindings[] = {inputs[i].memory.span(), outputs[i].memory.span()},
                    span = workspaces[i].span();
      TN_TRY(made.kernel.launch(streams[i], bindings, info.workspace_bytes != 0 ? &span : nullptr));
    }
  }
  for (size_t i = 0; i < lanes; ++i) {
    TN_TRY(streams[i].finish());
    const Bytes found = TN_TRY(outputs[i].memory.read(t, streams[i], "the result"));
    const Reckoned& wanted = reckoned.value(group.outputs[0]);
    const Fared fared = compare(wanted, wanted, tensor_of(outputs[i], found));
    t.check(fared.story.empty(), "stream ", i, ": ", fared.story);
  }
  return {};
}

CONFORM_CASE(2, "fused: supports answers at once, and always the same") {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  const Vocabulary* const known = TN_TRY(Vocabulary::of(t, device));
  const GroupForm form{
      .least_nodes = 2, .most_nodes = 32, .broadcast = true, .several = true, .known = known};
  double spent = 0;
  int answers = 0;
  for (int i = 0; i < 20; ++i) {
    Choices choices(t.random());
    const Group group = draw_group(form, 500, choices);
    const WholeGroup whole(group);
    const tn_support first = TN_TRY(supports(t, device, whole.fragment()));
    for (int again = 0; again < 5; ++again, ++answers) {
      const auto start = std::chrono::steady_clock::now();
      const tn_support now = TN_TRY(supports(t, device, whole.fragment()));
      spent += std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
      t.check(now.verdict == first.verdict && now.alias_mask == first.alias_mask &&
                  now.aliases_beyond == first.aliases_beyond && now.workspace_bytes == first.workspace_bytes,
              conform::told(group), ": two answers to one question differ");
    }
  }
  if (spent / answers > slow_answer_ns)
    t.warn(
        words("kernel.supports takes ", static_cast<int>(spent / answers / 1000), " µs; hosts count on 5"));
  return {};
}

}  // namespace tenon::conform
