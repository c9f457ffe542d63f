/* SPDX-License-Identifier: Apache-2.0 */
/* gone.c: the library that missing_dependency.c is linked with; it is never where the loader looks. */
__attribute__((visibility("default"))) int gone_function(void);
int gone_function(void) { return 0; }
