// SPDX-License-Identifier: Apache-2.0
// placed.hpp: a tensor of four dims as it lies in a binding of a fragment, for the libraries that read it there.
//
// Invariant: every stride is above 0, so no element of a placed tensor is read or written twice.
#pragma once

#include <tenon/author/fragment_view.hpp>
#include <tenon/result.hpp>

#include <string>

namespace tenon::cuda {

// Strides are in elements.
struct Placed {
  uint32_t binding = UINT32_MAX;  // inputs first, then outputs; UINT32_MAX: there is none
  std::array<int64_t, 4> dims{}, strides{};

  bool is_there() const noexcept { return binding != UINT32_MAX; }
};

// Where an input or an output of the fragment is bound. TN_UNSUPPORTED for what is computed on the way.
// [any-thread; does not block; may fail]
Result<uint32_t> bound_at(const author::FragmentView& fragment, uint32_t tensor);

// A tensor of up to four dims, those that are missing in front being 1. TN_UNSUPPORTED for one that repeats its elements.
// [any-thread; does not block; may fail]
Result<Placed> placed(const author::FragmentView& fragment, uint32_t tensor);

// All of it in a few words, nothing where there is none. [any-thread; does not block; may throw bad_alloc]
std::string told(const char* name, const Placed& placed);

}  // namespace tenon::cuda
