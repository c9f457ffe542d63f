#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch as a peer (../peer.hpp): torch_peer.py BYTES PART. Reads "WORKLOAD WAY" a line ("add3 compile"), answers with the device's
time of one run in ns; "replay" is that of a graph of 100 small additions.
Invariant: memory is there beforehand, so no allocator is measured; an answer that begins with ! is a failure."""
import functools
import sys

SMALL = 100  # additions of a replayed graph


def workloads(torch, count, part):
    """{workload: {way: function that makes one run}}, each made when it is first asked for."""
    def share(of):
        return max(of // part, 1)

    def rand(*dims, dtype=torch.float32):
        return torch.rand(dims, device="cuda", dtype=dtype)

    def add3():
        a, b, c = (rand(count) for _ in range(3))
        out, between = torch.empty_like(a), torch.empty_like(a)

        def eager():
            torch.add(a, b, out=between)
            torch.add(between, c, out=out)
        compiled = torch.compile(lambda x, y, z: x + y + z)
        return {"eager": eager, "compile": lambda: compiled(a, b, c)}

    def adam(parameters):
        w = torch.nn.Parameter(rand(parameters))
        w.grad = rand(parameters)
        optimizer = torch.optim.Adam([w], lr=1e-3, fused=True)
        return {"fused": optimizer.step}

    def check_finite(parameters):
        gradients, found, inverse = [rand(parameters)], torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")
        # pylint: disable=protected-access
        return {"eager": lambda: torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)}

    def batch_norm(adds):
        x = rand(share(256), 256, 56, 56, dtype=torch.bfloat16)
        residual = rand(*x.shape, dtype=torch.bfloat16) if adds else None
        norm = torch.nn.BatchNorm2d(256, device="cuda")

        @torch.no_grad()
        def eager():
            y = norm(x)
            torch.relu_(y.add_(residual) if adds else y)
        return {"eager": eager}

    # From what torch keeps: what relu gave is read, and not made again.
    def batch_norm_backward():
        x = rand(share(256), 256, 56, 56, dtype=torch.bfloat16)
        y, dy = torch.rand_like(x), torch.rand_like(x)
        scale, mean, inverse = (rand(256) for _ in range(3))

        def eager():
            grad = torch.ops.aten.threshold_backward(dy, y, 0)
            torch.ops.aten.native_batch_norm_backward(grad, x, scale, None, None, mean, inverse, True, 1e-5, [True] * 3)
        return {"eager": eager}

    def gemm_bias_gelu():
        x, w, b = (rand(*dims, dtype=torch.bfloat16) for dims in ((share(8192), 4096), (4096, 16384), (16384,)))
        gelu = functools.partial(torch.nn.functional.gelu, approximate="tanh")

        def step(x, w, b):
            return gelu(torch.addmm(b, x, w))
        compiled = torch.compile(step)
        return {"eager": lambda: step(x, w, b), "compile": lambda: compiled(x, w, b)}

    def layer_norm():
        x = rand(share(65536), 4096, dtype=torch.bfloat16)
        scale, bias = (rand(4096, dtype=torch.bfloat16) for _ in range(2))

        def step(x, scale, bias):
            return torch.nn.functional.layer_norm(x, (4096,), scale, bias)
        compiled = torch.compile(step)
        return {"eager": lambda: step(x, scale, bias), "compile": lambda: compiled(x, scale, bias)}

    def attention():
        q, k, v = (rand(share(4), 32, 4096, 128, dtype=torch.bfloat16) for _ in range(3))
        return {"eager": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)}

    def replay():
        a, b = rand(4096), rand(4096)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(SMALL):
                a.add_(b)
        return {"graph": graph.replay}

    million = 1_000_000
    return {"add3": add3, "adam/25.6M": lambda: adam(share(25_600_000)), "adam/1B": lambda: adam(share(1000 * million)),
            "check_finite/1B": lambda: check_finite(share(1000 * million)), "bn_relu": lambda: batch_norm(False),
            "bn_add_relu": lambda: batch_norm(True), "bn_relu_backward": batch_norm_backward,
            "gemm_bias_gelu": gemm_bias_gelu, "layer_norm": layer_norm, "attention": attention, "replay": replay}


def main():
    try:
        import torch
    except ImportError:
        print("torch is not installed: ./dev bench cuda --peers", flush=True)
        return
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} finds no device", flush=True)
        return
    makers = workloads(torch, int(sys.argv[1]) // 4, int(sys.argv[2]))
    now, ways = None, {}
    print(f"ready torch {torch.__version__} on {torch.cuda.get_device_name()}", flush=True)
    for line in sys.stdin:
        try:
            workload, way = line.split()
            if workload != now:
                ways.clear()  # its memory is for the next
                torch.cuda.empty_cache()
                ways, now = makers[workload](), workload
            ways[way]()  # compiled, and warm
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            ways[way]()
            end.record()
            torch.cuda.synchronize()
            print(begin.elapsed_time(end) * 1e6, flush=True)
        except Exception as trouble:  # whatever torch raises, the other rows go on
            print("!", str(trouble).splitlines()[0][:200], flush=True)


if __name__ == "__main__":
    main()
