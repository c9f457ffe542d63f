# SPDX-License-Identifier: Apache-2.0
"""Files of a run whose sums are known: cells of 10 µs, in each a kernel, a collective that outlasts it by 3 µs, and a wait.
Invariant: the same numbers give the same files, in the very form that Timeline::write has.
"""
import json

LANES = ("compute", "gradients", "copies")
CELL, KERNEL, COLLECTIVE, WAIT, COPY = 10.0, (0.0, 6.0), (4.0, 5.0), (9.0, 1.0), (0.5, 1.0)  # µs: begin in the cell, length
HOSTILE = '</script><img src=x onerror="document.title=1"><b>bold</b> & "quotes"'


def row(rank, lane, category, name, start, length, **more):
    return {"name": name, "cat": category, "ph": "X", "pid": rank, "tid": lane + 1, "ts": round(start, 3), "dur": length,
            "args": {"bytes": 4096} | more}


def events(rank, cells, copies):
    for cell in range(cells):
        at = cell * CELL
        yield row(rank, 0, "kernel", f"backward {cell % 50}", at + KERNEL[0], KERNEL[1])
        yield row(rank, 1, "collective", "all_reduce", at + COLLECTIVE[0], COLLECTIVE[1], bucket=cell % 4, predicted_ns=4000)
        yield row(rank, 0, "wait", "gradients", at + WAIT[0], WAIT[1])
        if cell < copies:
            yield row(rank, 2, "copy", HOSTILE if cell == 0 else "upload", at + COPY[0], COPY[1])


def document(rank, cells, copies, clock="one boot", notes=()):
    rows = [{"name": "process_name", "ph": "M", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}]
    rows += [{"name": "thread_name", "ph": "M", "pid": rank, "tid": i + 1, "args": {"name": name, "device": "cpu:0"}}
             for i, name in enumerate(LANES)]
    other = {"format": "tenon.trace/1", "generator": "a test", "clock": clock, "origin_ns": 7_000_000_000_000,
             "utc_ns": 1_700_000_000_000_000_000, "dropped": 0, "notes": list(notes)}
    return {"displayTimeUnit": "ns", "otherData": other, "traceEvents": rows + list(events(rank, cells, copies))}


def write(folder, ranks, cells, copies, **more):
    """One file for each rank; returns their paths."""
    paths = [folder / f"rank{rank}.json" for rank in range(ranks)]
    for rank, path in enumerate(paths):
        path.write_text(json.dumps(document(rank, cells, copies, **more)), encoding="utf-8")
    return paths
