// SPDX-License-Identifier: Apache-2.0
// comm_sums_in_half.cpp: a sum of bf16 is kept in bf16 from rank to rank.
#include "wrong_comm.hpp"

#include <tenon/author/half.hpp>

namespace {

struct Sum {
  const tenon::author::BF16* all;
  tenon::author::BF16* out;
  uint64_t count;
  uint32_t ranks;
};

void add(void* argument) {
  const Sum& sum = *static_cast<Sum*>(argument);
  for (uint64_t i = 0; i < sum.count; ++i) {
    tenon::author::BF16 total = sum.all[i];
    for (uint32_t q = 1; q < sum.ranks; ++q) {
      total = tenon::author::to_bf16(tenon::author::widen(total) +
                                     tenon::author::widen(sum.all[q * sum.count + i]));
    }
    sum.out[i] = total;
  }
}

}  // namespace

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    const bool mine = n == 1 && ops->kind == TN_COMM_ALL_REDUCE && ops->dtype == TN_DTYPE_bf16 &&
                      ops->reduce == TN_REDUCE_SUM && ops->count != 0;
    if (!mine) return wrong::right().comm.submit(c, s, ops, n, e);
    const wrong::Seat seat = wrong::seat_of(c);
    tn_comm_op gather = *ops;
    gather.kind = TN_COMM_ALL_GATHER;
    gather.reduce = 0;
    gather.recv = wrong::scratch(2 * ops->count * seat.size);
    const int32_t code = wrong::right().comm.submit(c, s, &gather, 1, e);
    if (code != TN_OK) return code;
    auto* const sum = reinterpret_cast<Sum*>(wrong::address_of(wrong::scratch(sizeof(Sum))));
    *sum = {reinterpret_cast<const tenon::author::BF16*>(wrong::address_of(gather.recv)),
            reinterpret_cast<tenon::author::BF16*>(wrong::address_of(ops->recv)), ops->count, seat.size};
    return wrong::right().stream.host_call(s, &add, sum, e);
  };
}
