#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch as a peer (../peer.hpp): reads "eager" or "compile" a line, answers with the device's time of d = a + b + c in ns.
Invariant: outputs are allocated beforehand, so no allocator is measured; an answer that begins with ! is a failure."""
import sys


def main():
    try:
        import torch
    except ImportError:
        print("torch is not installed: ./dev bench cuda --peers", flush=True)
        return
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} finds no device", flush=True)
        return
    count = int(sys.argv[1]) // 4
    a, b, c = (torch.full((count,), float(i), device="cuda") for i in range(3))
    out, between = torch.empty_like(a), torch.empty_like(a)

    def eager():
        torch.add(a, b, out=between)
        torch.add(between, c, out=out)

    compiled_sum = torch.compile(lambda x, y, z: x + y + z)
    ways = {"eager": eager, "compile": lambda: compiled_sum(a, b, c)}
    print(f"ready torch {torch.__version__} on {torch.cuda.get_device_name()}", flush=True)
    for line in sys.stdin:
        try:
            way = ways[line.strip()]
            way()  # compiled, and warm
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            way()
            end.record()
            torch.cuda.synchronize()
            print(begin.elapsed_time(end) * 1e6, flush=True)
        except Exception as trouble:  # whatever torch raises, the other rows go on
            print("!", str(trouble).splitlines()[0][:200], flush=True)


if __name__ == "__main__":
    main()
