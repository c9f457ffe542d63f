// SPDX-License-Identifier: Apache-2.0
// comm_fragments_forget_ranks.cpp: an all_reduce among nodes gives every rank what it brought itself.
#include "comm_in_fragments.hpp"

WRONG_COMM(tables) {
  wrong::put_collectives_in_fragments(tables);
  wrong::between() = [](tn_comm*, tn_stream* stream, const tn_comm_op& op, tn_error* error) {
    return wrong::right().stream.copy(stream, &op.recv, &op.send, error);
  };
}
