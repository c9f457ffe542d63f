// SPDX-License-Identifier: Apache-2.0
// words.hpp: buckets as people read them.
#pragma once

#include <tenon/overlap.hpp>

#include <string>

namespace tenon::overlap {

// Its first and last gradient: "fc.bias … conv5.weight", with "(part)" where a gradient is cut.
// [any-thread; does not block; cannot fail]
std::string called(const Bucket& bucket, const StepProfile& step);

}  // namespace tenon::overlap
