// SPDX-License-Identifier: Apache-2.0
// strided_drops_last_row.cpp: of a box with several rows the last one stays behind.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.copy_strided = [](tn_stream* s, const tn_span* to, const tn_span* from,
                                  const tn_copy_shape* shape, tn_error* e) {
    if (shape == nullptr || shape->rank < 2 || shape->rank > 4 || shape->extent[shape->rank - 2] < 2)
      return wrong::right().stream.copy_strided(s, to, from, shape, e);
    tn_copy_shape fewer = *shape;
    --fewer.extent[shape->rank - 2];
    return wrong::right().stream.copy_strided(s, to, from, &fewer, e);
  };
}
