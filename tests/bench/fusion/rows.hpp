// SPDX-License-Identifier: Apache-2.0
// rows.hpp: the rows of this suite.
#pragma once

#include "../row.hpp"

namespace bench {

void scheduler_rows();

}  // namespace bench
