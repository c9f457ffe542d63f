// SPDX-License-Identifier: Apache-2.0
// switch.hpp: leaving one stack for another.
//
// On x86-64 it is eight pushes and pops; elsewhere the C library's ucontext, which also makes two system calls.
// Invariant: a side that is left finds its stack and its callee-saved registers as they were when it is entered again.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && !defined(FAKECUDA_UCONTEXT)
extern "C" void fakecuda_switch(void** leave, void* enter);
asm(R"(
.text
.hidden fakecuda_switch
.globl fakecuda_switch
.type fakecuda_switch, @function
fakecuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fakecuda_switch, . - fakecuda_switch
)");

namespace fakecuda {

class Side {
 public:
  // A side that will call `begin` on this stack.
  void prepare(void* stack, size_t bytes, void (*begin)()) {
    auto* top = reinterpret_cast<uint64_t*>((reinterpret_cast<uint64_t>(stack) + bytes) & ~uint64_t{15});
    *--top = 0;  // where `begin` would return to: it never does; and it aligns the stack as a call does
    *--top = reinterpret_cast<uint64_t>(begin);
    for (int i = 0; i < 6; ++i) *--top = 0;
    at_ = top;
  }
  void leave_for(Side& other) { fakecuda_switch(&at_, other.at_); }

 private:
  void* at_ = nullptr;
};

}  // namespace fakecuda
#else
#include <ucontext.h>

namespace fakecuda {

class Side {
 public:
  void prepare(void* stack, size_t bytes, void (*begin)()) {
    getcontext(&at_);
    at_.uc_stack.ss_sp = stack;
    at_.uc_stack.ss_size = bytes;
    at_.uc_link = nullptr;
    makecontext(&at_, begin, 0);
  }
  void leave_for(Side& other) { swapcontext(&at_, &other.at_); }

 private:
  ucontext_t at_{};
};

}  // namespace fakecuda
#endif
