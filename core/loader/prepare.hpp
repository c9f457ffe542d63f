// SPDX-License-Identifier: Apache-2.0
// prepare.hpp: a graph run once a batch: as one fragment where the device compiles it, else as a plan of several.
//
// Some compilers do not look into a table that is computed; so of several, two are tried first: what makes the table, the rest.
// Invariant: as one fragment it allocates nothing a run; its workspace is its own, so runs are on one stream.
#pragma once

#include <tenon/device.hpp>
#include <tenon/plan.hpp>

#include <string>

namespace tenon::loader {

class Prepare {
 public:
  Prepare() = default;
  // `table` is called so in the graph, or is not there. TN_UNSUPPORTED naming the node that the device does not run, and its
  // reason. [stream's thread; may block; may fail]
  static Result<Prepare> make(Device& device, Stream& stream, const Graph& graph, const std::string& table);

  // Enqueues a run; bindings are inputs in the order of their declaration, then outputs. [stream's thread; may block; may fail]
  Status run(Stream& stream, std::span<const Binding> bindings, const Timeline& timeline) const;
  // [any-thread; does not block; cannot fail]
  uint32_t launches() const noexcept { return launches_; }
  // "in one launch (tiles)", or "in 3 launches: …" and the device's reason. [any-thread; does not block; cannot fail]
  const std::string& words() const noexcept { return words_; }

 private:
  Kernel kernel_;
  Buffer workspace_;
  Plan plan_;  // where there is no kernel
  uint32_t launches_ = 0;
  std::string words_;
};

}  // namespace tenon::loader
