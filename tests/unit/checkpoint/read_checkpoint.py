#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint with Python's own library alone: read_checkpoint.py FILE prints its notes and tensors."""
import hashlib
import json
import sys


def check(data, digest, what):
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{what} is not what its checksum says")


def read(path):
    """The notes, and (dtype, shape, bytes) by name."""
    with open(path, "rb") as file:
        head = file.read(8)
        head += file.read(int.from_bytes(head, "little"))
        data = file.read()
    header = json.loads(head[8:])
    notes = header.pop("__metadata__")
    digest = notes.pop("tenon.sha256")
    check(head.replace(digest.encode(), b"0" * 64, 1), digest, "the header")
    tensors = {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        check(data[begin:end], notes.pop(f"tenon.sha256.{name}"), name)
        tensors[name] = (tensor["dtype"], tensor["shape"], data[begin:end])
    return notes, tensors


if __name__ == "__main__":
    found = read(sys.argv[1])
    print(found[0])
    for name, (dtype, shape, data) in found[1].items():
        print(f"{name}: {dtype} {shape} {data.hex()}")
