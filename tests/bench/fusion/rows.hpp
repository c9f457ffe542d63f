// SPDX-License-Identifier: Apache-2.0
// rows.hpp: the rows of this suite.
#pragma once

#include "../row.hpp"

namespace bench {

void scheduler_rows();

// The CPU plugin's kernels; there when it was built with oneDNN.
void chain_rows();
void norm_rows();
void update_rows();
void attention_rows();
void spelled_rows();
void matmul_rows();
void linear_rows();
void conv_rows();

}  // namespace bench
