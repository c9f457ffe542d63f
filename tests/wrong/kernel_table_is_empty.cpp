// SPDX-License-Identifier: Apache-2.0
// kernel_table_is_empty.cpp: a kernel table that ends before its first function.
#include "wrong.hpp"

WRONG_PLUGIN(tables) { tables.kernel.header.size = sizeof(tn_header); }
