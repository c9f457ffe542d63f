// SPDX-License-Identifier: Apache-2.0
// loader_rows.hpp: training that waits for its data, and data that waits for nobody.
#pragma once

namespace bench {

// Prints the rows "loader/…". [one thread; blocks]
void loader_rows();

}  // namespace bench
