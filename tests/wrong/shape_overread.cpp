// SPDX-License-Identifier: Apache-2.0
// shape_overread.cpp: copy_strided reads a whole shape, whatever size the caller knows.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.copy_strided = [](tn_stream* s, const tn_span* dst, const tn_span* src,
                                  const tn_copy_shape* shape, tn_error* e) {
    if (shape == nullptr) return wrong::right().stream.copy_strided(s, dst, src, shape, e);
    tn_copy_shape whole = *shape;
    whole.size = sizeof whole;
    return wrong::right().stream.copy_strided(s, dst, src, &whole, e);
  };
}
