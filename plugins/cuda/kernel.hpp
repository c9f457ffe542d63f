// SPDX-License-Identifier: Apache-2.0
// kernel.hpp: a compiled fragment, ready to launch; and the engines that make one, each by a library of NVIDIA's.
//
// A fragment belongs to the first engine that takes it, to be served or to be refused by it alone. An engine opens its library
// when it is first asked, so one that is missing takes its own fragments away and no others.
// Invariant: nothing that a launch can see changes in a kernel after it is made, so any number of streams launch it at once.
#pragma once

#include "engine/compiler.hpp"
#include "stream.hpp"

#include <tenon/kernel.h>
#include <tenon/author/fragment_view.hpp>

namespace tenon::cuda {

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  virtual void info(tn_kernel_info& out) const = 0;
  virtual Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace) = 0;
  // What Engine::load takes. [any-thread; may block; may fail]
  virtual Result<uint64_t> save(std::span<std::byte> out) const = 0;
};

// What all engines of a process share.
struct Tools {
  explicit Tools(author::Host h) : host(h), folder(h), compiler(h, folder) {}
  Tools(const Tools&) = delete;
  Tools& operator=(const Tools&) = delete;

  author::Host host;
  Folder folder;
  Compiler compiler;
};

// One device's way to a library.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  // By ops alone: nothing else of the fragment has been looked at. [any-thread; does not block; cannot fail]
  virtual bool takes(const author::FragmentView& fragment) const noexcept = 0;
  // Fills `out` for a yes. TN_UNSUPPORTED is a no, with its reason; TN_INVALID a fragment that breaks ops.def.
  // [any-thread; does not block once the library is open; may fail]
  virtual Status supports(const author::FragmentView& fragment, tn_support& out) const = 0;
  // [any-thread; may block; may fail]
  virtual Result<std::unique_ptr<Kernel>> compile(const author::FragmentView& fragment,
                                                  const tn_compile_options& options) = 0;
  virtual Result<std::unique_ptr<Kernel>> load(const author::FragmentView& fragment,
                                               std::span<const std::byte> saved) = 0;
};

// The engines of one device, in the order in which they are asked; the last takes everything. The tools outlive them.
// TN_INVALID for an option that is none. [any-thread; does not block; may fail]
Result<std::vector<std::unique_ptr<Engine>>> engines_of(const std::shared_ptr<Gpu>& gpu, const Tools& tools);

// About the time that every byte of the bindings takes once through memory; 0 when the driver does not tell its rate.
// [any-thread; does not block; cannot fail]
double transfer_ns(const Context& context, const author::FragmentView& fragment);

}  // namespace tenon::cuda
