// SPDX-License-Identifier: Apache-2.0
// words.hpp: figures and buckets as people read them.
#pragma once

#include <tenon/overlap.hpp>

#include <string>

namespace tenon::overlap {

// "25.0 MiB". [any-thread; does not block; cannot fail]
std::string bytes_in_words(uint64_t bytes);
// "8.10 ms". [any-thread; does not block; cannot fail]
std::string time_in_words(double ns);
// Its first and last gradient: "fc.bias … conv5.weight", with "(part)" where a gradient is cut.
std::string called(const Bucket& bucket, const StepProfile& step);

}  // namespace tenon::overlap
