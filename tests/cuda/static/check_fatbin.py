#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_fatbin.py NVCC SOURCE IMAGE CODE…: the kernels that come compiled build for every chip that nvcc knows (those of ranks.cu for
sm_90 alone in a short run: they take long), and as PTX for chips to come; without spills, with 16-byte stores in all, 16-byte loads in
`copy_box` and `pull`, and under the names that the plugin calls. The image that the plugin carries holds exactly CODE: sm_90 and the
like for a chip, compute_90 for PTX.
Invariant: each chip's code is looked at, not only that nvcc was content.
"""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import check_sources
import cubin


REDUCTIONS = ("sum", "product", "least", "greatest", "mean", "scaled_sum")
NUMBERS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64")
ENTRIES = {
    "device": {"fill", "copy_box", "pull"},
    "ranks": {f"ranks_{r}_{t}" for r in REDUCTIONS for t in NUMBERS} | {f"ranks_{r}_b8" for r in REDUCTIONS[:4]},
}


def entries(source):
    return ENTRIES[pathlib.Path(source).stem]


def check_chip(nvcc, source, folder, chip):
    image = pathlib.Path(folder) / f"{chip}.cubin"
    command = [nvcc, "-std=c++17", "--fmad=false", f"-gencode=arch=compute_{chip},code=sm_{chip}", "-Xptxas", "-v", "-cubin",
               "-o", str(image), source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"sm_{chip}: does not build: {done.stderr.strip()[:400]}"]
    findings, code = check_sources.check_log(done.stderr), cubin.accesses(image.read_bytes())
    for name in sorted(entries(source)):
        for kind in ("loads", "stores") if name in ("copy_box", "pull") else ("stores",):
            if name not in code or getattr(code[name], kind)[16] == 0:
                findings.append(f"{name}: has no {kind} of 16 bytes")
    return [f"sm_{chip}: {finding}" for finding in findings]


def check_ptx(nvcc, source, folder, chip):
    ptx = pathlib.Path(folder) / "newest.ptx"
    done = subprocess.run([nvcc, "-std=c++17", "--fmad=false", f"-arch=compute_{chip}", "-ptx", "-o", str(ptx), source],
                          capture_output=True, text=True, check=False)
    names = set(re.findall(r"\.entry (\w+)", ptx.read_text())) if done.returncode == 0 else set()
    return [] if names == entries(source) else [f"PTX for compute_{chip} has entries {sorted(names)}: {done.stderr[:400]}"]


def codes(image):
    """What a fatbin holds. After its head of 16 bytes come parts; each has a head with its kind (1 PTX, 2 machine code), the
    size of that head, of what follows, and the chip."""
    magic, _, head, size = struct.unpack_from("<IHHQ", image)
    if magic != 0xBA55ED50:
        raise ValueError("not a fatbin")
    out, at = [], head
    while at < head + size:
        kind, _, part, follows = struct.unpack_from("<HHIQ", image, at)
        chip, = struct.unpack_from("<I", image, at + 28)
        out.append(f"{'compute' if kind == 1 else 'sm'}_{chip}")
        at += part + follows
    return out


def check_image(image, wanted):
    found = codes(pathlib.Path(image).read_bytes())
    return [] if sorted(found) == sorted(wanted) else [f"{image} holds {sorted(found)}; {sorted(wanted)} are meant"]


def known_chips(nvcc):
    listed = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    return [chip for chip in check_sources.CHIPS if f"compute_{chip}" in listed.split()]


def main():
    nvcc, source, image, *wanted = sys.argv[1:]
    if not shutil.which(nvcc):
        print(f"SKIPPED: nvcc: '{nvcc}' is not here")
        return 1 if {"nvcc", "all"} & set(os.environ.get("TENON_REQUIRE", "").split(",")) else 77
    full = os.environ.get("TENON_TEST_FULL") == "1" or pathlib.Path(source).stem == "device"
    chips = known_chips(nvcc) if full else [90]
    findings = check_image(image, wanted)
    with tempfile.TemporaryDirectory() as folder:
        for chip in chips:
            findings += check_chip(nvcc, source, folder, chip)
        for chip in {90, chips[-1]}:
            findings += check_ptx(nvcc, source, folder, chip)
    for finding in findings:
        print(finding)
    print(f"{pathlib.Path(source).name} for {', '.join(f'sm_{chip}' for chip in chips)} and PTX; the plugin carries {', '.join(wanted)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
