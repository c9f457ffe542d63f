#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of torch's DistributedDataParallel over gloo, asked as ../peer.hpp says: torch_peer.py SHAPE WORK.so.

SHAPE and the questions are those of rank.cpp: "prepare" takes steps until the buckets are rebuilt, checks averages, and is answered with
the nanoseconds of a step's computing alone and 0, for nothing is predicted; "step" with those of the step and of its backward.
Invariant: each gradient takes the work that it takes in ours, outside of Python's lock, and is then told of by autograd.
"""
import ctypes
import os
import statistics
import sys
import time

WARM_UPS, ALONE = 6, 5


def read_shape(path):
    """The turns of forward, and (elements, turns) of each parameter in order."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split() for line in file]
    forward = [int(turns) for name, _, turns in rows if name == "forward"]
    return forward[0], [(int(elements), int(turns)) for name, elements, turns in rows if name != "forward"]


def make_model(torch, rows, work, value):
    """A chain of layers whose backward writes a gradient that lies there, and works for it."""

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, parameter, gradient, turns):
            ctx.gradient, ctx.turns = gradient, turns
            return x.view_as(x)

        @staticmethod
        def backward(ctx, dx):
            ctx.gradient.fill_(value)
            work(ctx.turns)
            return dx, ctx.gradient, None, None

    class Chain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ParameterList(torch.zeros(elements) for elements, _ in rows)
            self.gradients = [torch.zeros(elements) for elements, _ in rows]

        def forward(self, x):
            for parameter, gradient, (_, turns) in zip(self.layers, self.gradients, rows):
                x = Layer.apply(x, parameter, gradient, turns)
            return x

    return Chain()


class Rank:
    def __init__(self, torch, shape, library):
        self.torch = torch
        self.work = ctypes.CDLL(library).tenon_bench_work  # releases Python's lock
        self.work.argtypes, self.work.restype = [ctypes.c_uint64], ctypes.c_uint64
        self.forward_turns, rows = read_shape(shape)
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.distributed.init_process_group("gloo", init_method="file://" + os.environ["OVERLAP_MEETING"],
                                             rank=self.rank, world_size=self.size)
        self.chain = make_model(torch, rows, self.work, float(self.rank + 1))
        self.model = torch.nn.parallel.DistributedDataParallel(self.chain, gradient_as_bucket_view=True)
        self.x = torch.zeros(1, requires_grad=True)

    def step(self):
        start = time.perf_counter_ns()
        self.work(self.forward_turns)
        loss = self.model(self.x).sum()
        turn = time.perf_counter_ns()
        loss.backward()
        end = time.perf_counter_ns()
        return end - start, end - turn

    def alone(self):
        times = []
        for _ in range(ALONE):
            self.torch.distributed.barrier()
            start = time.perf_counter_ns()
            self.work(self.forward_turns)
            with self.model.no_sync():
                self.model(self.x).sum().backward()
            times.append(time.perf_counter_ns() - start)
        return statistics.median(times)

    def prepare(self):
        for _ in range(WARM_UPS):
            self.model.zero_grad(set_to_none=True)
            self.step()
        expected = (self.size + 1) / 2
        for parameter in self.chain.layers:
            if not bool((parameter.grad == expected).all()):
                raise RuntimeError("an average is wrong")
        return f"{self.alone():.0f} 0"

    def answer(self, line):
        if line.strip() == "prepare":
            return self.prepare()
        self.model.zero_grad(set_to_none=True)
        return "{} {}".format(*self.step())


def main():
    try:
        import torch
    except ImportError:
        print("torch is not installed: ./dev bench overlap --peers", flush=True)
        return
    torch.set_num_threads(1)
    print("ready torch " + torch.__version__, flush=True)
    rank = None
    for line in sys.stdin:
        try:
            rank = rank or Rank(torch, sys.argv[1], sys.argv[2])  # meets the others, who are started one after the other
            said = rank.answer(line)
        except Exception as trouble:  # whatever torch raises, the other crews go on
            said = "! " + (str(trouble).splitlines() or [type(trouble).__name__])[0][:200]
        print(said, flush=True)


if __name__ == "__main__":
    main()
