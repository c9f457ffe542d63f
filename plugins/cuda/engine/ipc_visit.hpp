// SPDX-License-Identifier: Apache-2.0
// ipc_visit.hpp: the other side of tickets: asking the process that wrote one for what it stands for.
//
// Invariant: it ends within the patience that it is given, whatever the exporter does; a descriptor that came is either given to
// the caller or closed.
#pragma once

#include "ipc_wire.hpp"

namespace tenon::cuda::ipc {

struct Parcel {
  Fd pages{};  // none for a memory of no bytes
  Extent extent{};
};

// TN_NOT_FOUND: the exporter is gone, or knows no such memory any more. TN_TIMEOUT: it does not answer. TN_UNSUPPORTED: it is
// another user's. TN_NO_MEMORY: no descriptor is left here. [any-thread; blocks; may fail]
Result<Parcel> visit(const Bits& name, const Ask& ask, uint64_t patience_ns);

}  // namespace tenon::cuda::ipc
