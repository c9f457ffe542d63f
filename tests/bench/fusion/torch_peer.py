#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch on the CPU as a peer (../peer.hpp): torch_peer.py THREADS.

"prepare ROW" makes a row's arrays and is answered "ways eager compile"; "run WAY" runs it twice and is answered with the
nanoseconds of the second.
Invariant: as well tuned as torch can be: every output is there before, eager works in place where it can, optimizers are the
fused ones, and the instruction set is the widest that the machine has.
"""
import os
import pathlib
import sys
import time

COUNT = 1 << 24  # 64 MB of f32, as in chains.cpp


def widest_isa():
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return "avx512" if " avx512bw" in flags else "avx2" if " avx2" in flags else "default"


def resnet50_sizes():
    """The 161 parameters of updates.cpp."""
    sizes = []

    def convolution(before, after, kernel):
        sizes.extend([before * after * kernel * kernel, after, after])

    convolution(3, 64, 7)
    before, width = 64, 64
    for blocks in (3, 4, 6, 3):
        for block in range(blocks):
            convolution(before, width, 1)
            convolution(width, width, 3)
            convolution(width, 4 * width, 1)
            if block == 0:
                convolution(before, 4 * width, 1)
            before = 4 * width
        width *= 2
    return sizes + [before * 1000, 1000]


def arrays(torch, number, *shape, dtype=None):
    return [torch.rand(*(shape or (COUNT,))).add_(0.5).to(dtype or torch.float32) for _ in range(number)]


def add_chain(torch, operands):
    given, out = arrays(torch, operands), torch.empty(COUNT)

    def eager():
        torch.add(given[0], given[1], out=out)
        for more in given[2:]:
            out.add_(more)

    return eager, compiled(torch, lambda *x: sum(x[1:], x[0]), given, out)


def chain_sigmoid_5(torch):
    (a, b, c), out = arrays(torch, 3), torch.empty(COUNT)

    def eager():
        torch.mul(a, b, out=out)
        out.add_(c).sigmoid_().mul_(a).add_(b)

    return eager, compiled(torch, lambda x, y, z: torch.sigmoid(x * y + z) * x + y, (a, b, c), out)


def chain_tanh_8(torch):
    (a, b, c, d), out = arrays(torch, 4), torch.empty(COUNT)

    def eager():
        torch.mul(a, b, out=out)
        out.add_(c).sub_(d).tanh_().mul_(d).add_(a).mul_(c).relu_()

    return eager, compiled(
        torch, lambda x, y, z, w: torch.relu((torch.tanh(x * y + z - w) * w + x) * z), (a, b, c, d), out)


def activation(torch, eager_op, operands, **how):
    """One operation of ATen, which takes `out` or, a gradient, `grad_input`."""
    given, out = arrays(torch, operands), torch.empty(COUNT)
    packet = getattr(torch.ops.aten, eager_op)
    into = packet.grad_input if operands == 2 else packet.out
    to = {"grad_input" if operands == 2 else "out": out}
    return lambda: into(*given, **how, **to), compiled(torch, lambda *x: packet(*x, **how), given, out)


def linear_gelu(torch, dtype):
    x, = arrays(torch, 1, 2048, 768, dtype=dtype)
    weight, = arrays(torch, 1, 768, 3072, dtype=dtype)
    bias, = arrays(torch, 1, 3072, dtype=dtype)
    product, out = (torch.empty(2048, 3072, dtype=dtype) for _ in range(2))

    def eager():
        torch.addmm(bias, x, weight, out=product)
        torch.ops.aten.gelu.out(product, out=out)

    gelu = torch.nn.functional.gelu
    return eager, compiled(torch, lambda a, w, b: gelu(torch.addmm(b, a, w)), (x, weight, bias), out)


def compiled(torch, function, given, out):
    """The function as torch.compile makes it, its result written to `out` in the same pass."""
    step = torch.compile(lambda to, *x: to.copy_(function(*x)), dynamic=False)
    return lambda: step(out, *given)


def optimizer(torch, make):
    parameters = [torch.nn.Parameter(values) for size in resnet50_sizes() for values in arrays(torch, 1, size)]
    for parameter in parameters:
        parameter.grad = torch.rand_like(parameter).add_(0.5)
    fused, foreach = make(parameters, fused=True), make(parameters, foreach=True)
    return fused.step, torch.compile(foreach.step)


def rows(torch):
    optim = torch.optim
    return {
        "add_chain/3": lambda: add_chain(torch, 3),
        "add_chain/5": lambda: add_chain(torch, 5),
        "add_chain/8": lambda: add_chain(torch, 8),
        "chain_sigmoid_5": lambda: chain_sigmoid_5(torch),
        "chain_tanh_8": lambda: chain_tanh_8(torch),
        "activation/gelu": lambda: activation(torch, "gelu", 1),
        "activation/gelu_grad": lambda: activation(torch, "gelu_backward", 2),
        "activation/gelu_tanh": lambda: activation(torch, "gelu", 1, approximate="tanh"),
        "activation/gelu_tanh_grad": lambda: activation(torch, "gelu_backward", 2, approximate="tanh"),
        "activation/silu_grad": lambda: activation(torch, "silu_backward", 2),
        "linear_gelu/f32": lambda: linear_gelu(torch, torch.float32),
        "linear_gelu/bf16": lambda: linear_gelu(torch, torch.bfloat16),
        "adam": lambda: optimizer(torch, lambda p, **how: optim.Adam(p, lr=1e-3, **how)),
        "momentum": lambda: optimizer(torch, lambda p, **how: optim.SGD(p, lr=1e-3, momentum=0.9, **how)),
        "sgd": lambda: optimizer(torch, lambda p, **how: optim.SGD(p, lr=1e-3, **how)),
    }


class Row:
    """One row's ways, or none."""

    def __init__(self, make=None):
        self.ways = dict(zip(("eager", "compile"), make())) if make else {}

    def run(self, way):
        step = self.ways[way]
        step()
        start = time.perf_counter_ns()
        step()
        return time.perf_counter_ns() - start


def answer(torch, known, current, line):
    """What is answered, and the row that is ready afterwards."""
    word, _, rest = line.strip().partition(" ")
    if word == "run":
        return str(current.run(rest)), current
    if rest not in known:
        return f"! there is no row '{rest}'", current
    current.ways.clear()  # the arrays of the row before go first
    torch.compiler.reset()  # what was compiled for other rows counts against a limit, beyond which torch runs eagerly
    row = Row(known[rest])
    return "ways " + " ".join(row.ways), row


def main():
    os.environ.setdefault("ATEN_CPU_CAPABILITY", widest_isa())
    try:
        import torch
    except ImportError:
        print("torch is not installed: ./dev bench fusion --peers", flush=True)
        return
    dynamo = getattr(torch, "_dynamo", None)
    if hasattr(getattr(dynamo, "config", None), "fail_on_recompile_limit_hit"):
        dynamo.config.fail_on_recompile_limit_hit = True  # rather than a row that says "compile" and is not
    threads = int(sys.argv[1])
    torch.set_num_threads(threads)
    print(f"ready torch {torch.__version__} on the CPU: {threads} threads, {torch.backends.cpu.get_cpu_capability()}, "
          "outputs allocated before, fused optimizers; compile: torch.compile", flush=True)
    known, current = rows(torch), Row()
    for line in sys.stdin:
        try:
            with torch.no_grad():
                said, current = answer(torch, known, current, line)
        except Exception as trouble:  # whatever torch raises, the other rows go on
            said = "! " + (str(trouble).splitlines() or [type(trouble).__name__])[0][:200]
        print(said, flush=True)


if __name__ == "__main__":
    main()
