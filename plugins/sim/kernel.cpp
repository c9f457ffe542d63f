// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: preparing and running executors.
#include "kernel.hpp"

#include "stream.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::sim {

Status Executor::run(Card& card, std::span<std::byte* const> bindings, std::byte* workspace) const {
  if (one_shot_ && spent_.exchange(true)) {
    return Status(TN_INTERNAL,
                  "an executor was run twice, and executors of this profile run once "
                  "(sim.one_shot_kernels): prepare one for each launch");
  }
  if (workspace != nullptr) card.arena().scribble(workspace, workspace_, std::byte{0xEB});
  program_->run(bindings, workspace);
  card.after_launch(program_->first_output(bindings));
  return {};
}

Saved::Saved(const Profile& profile, const tn_fragment& fragment) {
  author::set_text(maker, author::text("tenon sim ", TENON_PLUGIN_VERSION, " ", profile.name));
  std::memcpy(identity, fragment.identity, sizeof identity);
}

Kernel::Kernel(const tn_fragment& fragment, const Profile& profile)
    : saved_(profile, fragment),
      program_(std::make_shared<const Program>(author::FragmentView(fragment))),
      workspace_(workspace_bytes(*program_, profile)),
      one_shot_(profile.one_shot_kernels) {
  if (!one_shot_) shared_ = prepare();
}

uint64_t Kernel::workspace_bytes(const Program& program, const Profile& profile) noexcept {
  return program.workspace_bytes() + (profile.workspace_kib << 10);
}

std::shared_ptr<const Executor> Kernel::prepare() const {
  return std::make_shared<const Executor>(program_, workspace_, one_shot_);
}

void Kernel::info(tn_kernel_info& out) const {
  out.workspace_bytes = workspace_;
  author::set_text(out.engine, "sim:interpreter");
}

Result<uint64_t> Kernel::save(std::span<std::byte> out) {
  if (!out.empty()) std::memcpy(out.data(), &saved_, std::min(out.size(), sizeof saved_));
  return sizeof saved_;
}

Status Kernel::launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace) {
  return stream.launch(one_shot_ ? prepare() : shared_, bindings, workspace);
}

}  // namespace tenon::sim
