// SPDX-License-Identifier: Apache-2.0
// strategy.hpp: every choice of how a graph is made to run, as one struct and as a TOML file.
//
// Invariant: a file either sets what it names or is refused: an unknown key, a wrong type or a value out of range is an
// error with its place, never silence. parse(text()) is the same strategy.
#pragma once

#include <tenon/export.hpp>
#include <tenon/fusion.hpp>
#include <tenon/overlap.hpp>
#include <tenon/result.hpp>

#include <string>
#include <string_view>

namespace tenon {

//   [fusion]
//   elementwise = true
//   patterns    = true
//   optimizers  = true
//   off         = ["gemm_*"]
//   must_fuse   = [["conv1", "bn1"], ["fc*"]]
//   never_fuse  = ["softmax_7"]
//   max_nodes   = 256
//   min_gain_us = 0.0
//
//   [overlap]
//   mode                 = "automatic"
//   fuse_grad_size_in_MB = 0
//   …                    # every member of OverlapOptions
struct Strategy {
  FusionOptions fusion{};
  OverlapOptions overlap{};

  // TN_INVALID naming `origin`, the key, its value and the remedy. [any-thread; does not block; may fail]
  TN_API static Result<Strategy> parse(std::string_view text, const std::string& origin = "strategy");
  // The same from a file. TN_NOT_FOUND. [any-thread; may block; may fail]
  TN_API static Result<Strategy> load(const std::string& path);
  // All keys, with the values that hold. [any-thread; does not block; cannot fail]
  TN_API std::string text() const;
};

}  // namespace tenon
