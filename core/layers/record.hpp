// SPDX-License-Identifier: Apache-2.0
// record.hpp: the layer that writes every call that matters into a file, from which `replay` makes them again.
//
// Recorded: devices, memories, streams, copies, fills, values and waits, what the host learned to be reached, fragments in
// full, launches, and the host's bytes: what an upload brought, what pinned memory held when it was read, and a digest of
// what a download gave. To have these bytes, a copy from or to memory that the host can see blocks until it is done.
// Not recorded: questions (supports, info, limits), what a host call did, memory that an extension brought, collectives.
// Invariant: the order in the file is one in which a single thread can make the calls. "tn.capture/1" is not offered under
// this layer, so that all work is seen.
#pragma once

#include "layers/layer.hpp"

namespace tenon::layers {

// For what stands after "record=": the file, which is made at once. TN_INVALID when it cannot be.
// [any-thread; may block; may fail]
Result<std::unique_ptr<Layer>> make_record(std::string_view file, Log log);

}  // namespace tenon::layers
