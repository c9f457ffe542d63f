#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch on the CPU as a peer (../peer.hpp): torch_peer.py THREADS.

"prepare ROW" makes a row's arrays and is answered "ways eager compile"; "run WAY" runs it twice and is answered with the
nanoseconds of the second.
Invariant: as well tuned as torch can be: outputs are there before, or lie in memory that malloc keeps; eager works in place where
it can, optimizers are the fused ones, and the instruction set is the widest that the machine has. Where compile would call what
eager calls (products, convolutions, attention, unscaling) there is eager alone.
"""
import os
import pathlib
import re
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
    """The function as torch.compile makes it, its result, or each of its results, written to `out` in the same pass."""
    def into(to, *x):
        made = function(*x)
        pairs = zip(to, made) if isinstance(to, tuple) else [(to, made)]
        for place, value in pairs:
            place.copy_(value)

    step = torch.compile(into, dynamic=False)
    return lambda: step(out, *given)


def matmul(torch, n, dtype):
    (a, b), out = arrays(torch, 2, n, n, dtype=dtype), torch.empty(n, n, dtype=dtype)
    return (lambda: torch.mm(a, b, out=out),)


def attention(torch, dtype):
    q, k, v = arrays(torch, 3, 4, 12, 512, 64, dtype=dtype)
    return (lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.125),)


def cast_f32_bf16(torch):
    (x,), out = arrays(torch, 1), torch.empty(COUNT, dtype=torch.bfloat16)
    return lambda: out.copy_(x), compiled(torch, lambda a: a.to(torch.bfloat16), (x,), out)


def check_finite_unscale(torch):
    gradients = [values for size in resnet50_sizes() for values in arrays(torch, 1, size)]
    found, factor = torch.zeros(1), torch.ones(1)
    return (lambda: torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, factor),)


def softmax_forward(torch):
    (x,), out = arrays(torch, 1, 24576, 512), torch.empty(24576, 512)
    return lambda: torch.softmax(x, 1, out=out), compiled(torch, lambda a: torch.softmax(a, 1), (x,), out)


def softmax_backward(torch):
    (dy, y), out = arrays(torch, 2, 24576, 512), torch.empty(24576, 512)
    backward = torch.ops.aten._softmax_backward_data
    return (lambda: backward.out(dy, y, 1, torch.float32, grad_input=out),
            compiled(torch, lambda a, b: backward(a, b, 1, torch.float32), (dy, y), out))


def layer_norm(torch, backward):
    rows, length = 16384, 1024
    (x,), (scale, bias) = arrays(torch, 1, rows, length), arrays(torch, 2, length)
    made = torch.native_layer_norm(x, (length,), scale, bias, 1e-5)
    if not backward:
        forward = lambda a, s, b: torch.native_layer_norm(a, (length,), s, b, 1e-5)
        return lambda: forward(x, scale, bias), compiled(torch, forward, (x, scale, bias), made)
    (dy,), out = arrays(torch, 1, rows, length), (torch.empty(rows, length), torch.empty(length), torch.empty(length))
    gradient = lambda d, a, m, r, s, b: torch.ops.aten.native_layer_norm_backward(
        d, a, (length,), m, r, s, b, [True, True, True])
    given = (dy, x, made[1], made[2], scale, bias)
    return lambda: gradient(*given), compiled(torch, gradient, given, out)


def images(torch, number, dtype):
    return [x.contiguous(memory_format=torch.channels_last) for x in arrays(torch, number, 16, 256, 56, 56, dtype=dtype)]


def batch_norm(torch, dtype, residual):
    x, added = images(torch, 2, dtype)
    scale, bias, mean, variance = arrays(torch, 4, 256)
    norm = lambda a: torch.native_batch_norm(a, scale, bias, mean, variance, True, 0.1, 1e-5)[0]

    def eager():
        y = norm(x)
        (y.add_(added) if residual else y).relu_()

    return eager, compiled(torch, lambda a, r: torch.relu(norm(a) + r if residual else norm(a)), (x, added), torch.empty_like(x))


def relu_bn_backward(torch):
    dy, x = images(torch, 2, torch.float32)
    scale, bias, mean, variance = arrays(torch, 4, 256)
    normed, mean, inverse = torch.native_batch_norm(x, scale, bias, mean, variance, True, 0.1, 1e-5)
    y, dz = torch.relu(normed), torch.empty_like(dy)
    aten = torch.ops.aten
    norm = lambda d, a, m, i: aten.native_batch_norm_backward(d, a, scale, None, None, m, i, True, 1e-5, [True, True, True])

    def eager():
        aten.threshold_backward.grad_input(dy, y, 0, grad_input=dz)
        norm(dz, x, mean, inverse)

    out = (torch.empty_like(x), torch.empty(256), torch.empty(256))
    return eager, compiled(torch, lambda d, r, a, m, i: norm(aten.threshold_backward(d, r, 0), a, m, i),
                           (dy, y, x, mean, inverse), out)


CONVOLUTION = re.compile(r"conv_(f32|bf16)_(forward|backward_data|backward_weights)/(\d+)x\d+_(\d+)_(\d+)_(\d)x\d(?:_s(\d))?$")


def convolution(torch, name):
    """A row of conv.cpp by its name: images channels last, weights as a graph has them."""
    kind, way, *numbers = CONVOLUTION.match(name).groups()
    dtype = torch.float32 if kind == "f32" else torch.bfloat16
    side, before, after, window, stride = (int(number or 1) for number in numbers)
    steps, pads = (stride, stride), (window // 2, window // 2)
    last = lambda *shape: arrays(torch, 1, *shape, dtype=dtype)[0].contiguous(memory_format=torch.channels_last)
    x, (w,) = last(16, before, side, side), arrays(torch, 1, after, before, window, window, dtype=dtype)
    forward = lambda: torch.nn.functional.conv2d(x, w, stride=steps, padding=pads)
    if way == "forward":
        return (forward,)
    dy = torch.ones_like(forward())
    wanted = [way == "backward_data", way == "backward_weights", False]
    return (lambda: torch.ops.aten.convolution_backward(dy, x, w, None, steps, pads, (1, 1), False, (0, 0), 1, wanted),)


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
        "attention/f32": lambda: attention(torch, torch.float32),
        "attention/bf16": lambda: attention(torch, torch.bfloat16),
        "cast_f32_bf16": lambda: cast_f32_bf16(torch),
        "check_finite_unscale": lambda: check_finite_unscale(torch),
        "softmax_forward": lambda: softmax_forward(torch),
        "softmax_backward": lambda: softmax_backward(torch),
        "layer_norm_forward": lambda: layer_norm(torch, False),
        "layer_norm_backward": lambda: layer_norm(torch, True),
        "bn_relu_forward/f32": lambda: batch_norm(torch, torch.float32, False),
        "bn_relu_forward/bf16": lambda: batch_norm(torch, torch.bfloat16, False),
        "bn_add_relu_forward/f32": lambda: batch_norm(torch, torch.float32, True),
        "relu_bn_backward/f32": lambda: relu_bn_backward(torch),
        "linear_gelu/f32": lambda: linear_gelu(torch, torch.float32),
        "linear_gelu/bf16": lambda: linear_gelu(torch, torch.bfloat16),
        "adam": lambda: optimizer(torch, lambda p, **how: optim.Adam(p, lr=1e-3, **how)),
        "momentum": lambda: optimizer(torch, lambda p, **how: optim.SGD(p, lr=1e-3, momentum=0.9, **how)),
        "sgd": lambda: optimizer(torch, lambda p, **how: optim.SGD(p, lr=1e-3, **how)),
    }


def maker(torch, known, name):
    """What makes the row's ways, or None."""
    if CONVOLUTION.match(name):
        return lambda: convolution(torch, name)
    product = re.match(r"matmul_(f32|bf16)/(\d+)$", name)
    if product:
        return lambda: matmul(torch, int(product[2]), torch.float32 if product[1] == "f32" else torch.bfloat16)
    return known.get(name)


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
    make = maker(torch, known, rest)
    if make is None:
        return f"! there is no row '{rest}'", current
    current.ways.clear()  # the arrays of the row before go first
    torch.compiler.reset()  # what was compiled for other rows counts against a limit, beyond which torch runs eagerly
    row = Row(make)
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
          "outputs allocated before or in memory that is kept, fused optimizers; compile: torch.compile", flush=True)
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
