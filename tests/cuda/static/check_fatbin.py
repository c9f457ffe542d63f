#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_fatbin.py NVCC SOURCE: the kernels that come compiled build for every chip, and as PTX for chips to come; without
spills, and with 16-byte stores in `fill` and 16-byte loads and stores in `copy_box`.
Invariant: each chip's code is looked at, not only that nvcc was content.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import check_sources
import cubin


def check_chip(nvcc, source, folder, chip):
    image = pathlib.Path(folder) / f"{chip}.cubin"
    command = [nvcc, "-std=c++17", "--fmad=false", f"-gencode=arch=compute_{chip},code=sm_{chip}", "-Xptxas", "-v", "-cubin",
               "-o", str(image), source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"sm_{chip}: does not build: {done.stderr.strip()[:400]}"]
    findings, code = check_sources.check_log(done.stderr), cubin.accesses(image.read_bytes())
    for name, kinds in (("fill", ("stores",)), ("copy_box", ("loads", "stores"))):
        for kind in kinds:
            if name not in code or getattr(code[name], kind)[16] == 0:
                findings.append(f"{name}: has no {kind} of 16 bytes")
    return [f"sm_{chip}: {finding}" for finding in findings]


def check_ptx(nvcc, source, folder, chip):
    ptx = pathlib.Path(folder) / "newest.ptx"
    done = subprocess.run([nvcc, "-std=c++17", "--fmad=false", f"-arch=compute_{chip}", "-ptx", "-o", str(ptx), source],
                          capture_output=True, text=True, check=False)
    names = set(re.findall(r"\.entry (\w+)", ptx.read_text())) if done.returncode == 0 else set()
    return [] if names == {"fill", "copy_box"} else [f"PTX for compute_{chip} has entries {sorted(names)}: {done.stderr[:400]}"]


def main():
    nvcc, source = sys.argv[1:]
    if not shutil.which(nvcc):
        print(f"SKIPPED: nvcc: '{nvcc}' is not here")
        return 1 if {"nvcc", "all"} & set(os.environ.get("TENON_REQUIRE", "").split(",")) else 77
    findings = []
    with tempfile.TemporaryDirectory() as folder:
        for chip in check_sources.CHIPS:
            findings += check_chip(nvcc, source, folder, chip)
        findings += check_ptx(nvcc, source, folder, check_sources.CHIPS[-1])
    for finding in findings:
        print(finding)
    print(f"device.cu for {', '.join(f'sm_{chip}' for chip in check_sources.CHIPS)} and PTX")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
