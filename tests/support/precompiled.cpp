// SPDX-License-Identifier: Apache-2.0
// The source of a library that is nothing but its precompiled header.
// Invariant: it stays empty.
