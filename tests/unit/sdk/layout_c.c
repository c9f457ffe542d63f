/* SPDX-License-Identifier: Apache-2.0 */
/* layout_c.c: the layout of the contract as a C compiler sees it.
 * Invariant: compiled with -Wpadded, so padding that is not written out is a warning. */
#include <tenon/layout.h>
