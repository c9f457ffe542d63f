#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doctor_test.py TOOL PLUGIN.so NO_DRIVER FAKECUDA_FOLDER NCCL_FOLDER: `tenon doctor` says what of NVIDIA's is missing and what to install.

NO_DRIVER is a folder whose libcuda.so.1 does not open, which ends the search for the name; over the test-only driver
the libraries are there, and then named where they are not. NCCL_FOLDER is '' where the plugin was built without nccl.h.
Invariant: the text is read as a user reads it, and the JSON says the same; a process in which a driver opens fails.
"""
import json
import os
import re
import subprocess
import sys

MISSING = "no NVIDIA driver: libcuda.so.1 does not open"
REMEDY = "install the NVIDIA driver for this system"
LINE = re.compile(rf"^  cuda +loaded .* 0 devices .*no device: {re.escape(MISSING)} \(.+\); {re.escape(REMEDY)}$", re.MULTILINE)
LIBRARIES = {  # what one does: how it is called, the option that names it, what is said where it is not
    "matrix products": ("cuBLASLt", "CUBLASLT", "install libcublas-13-*"),
    "convolutions, attention": ("cuDNN", "CUDNN", "install libcudnn9-cuda-12 or -13"),
    "ranks of several processes": ("NCCL", "NCCL", "NCCL is missing: install libnccl2"),
}


def doctor(tool, plugin, libraries, *more, **options):
    command = [tool, "doctor", "--plugin-path", os.path.dirname(os.path.abspath(plugin)), *more]
    environment = dict(os.environ, LD_LIBRARY_PATH=libraries, **options)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def without_driver(tool, plugin, folder):
    text, told = doctor(tool, plugin, folder), json.loads(doctor(tool, plugin, folder, "--json"))
    found = LINE.findall(text)
    trouble = next((one.get("trouble", "") for one in told["plugins"] if one["name"] == "cuda"), "")
    findings = []
    if len(found) != 1:
        findings.append(f"no line of plugin 'cuda' that says what is missing and what to install:\n{text}")
    if MISSING not in trouble or REMEDY not in trouble:
        findings.append(f"the JSON's trouble of 'cuda' is {trouble!r}")
    if re.search(r"^  cuda:\d", text, re.MULTILINE):
        findings.append("a device of CUDA is listed")
    return findings


def told_by_device(tool, plugin, libraries, **options):
    """{what a library does: what the device says of it}, from the JSON; each line stands in the text, too."""
    told = json.loads(doctor(tool, plugin, libraries, "--json", **options))
    lines = next(device["told"] for one in told["plugins"] if one["name"] == "cuda" for device in one["devices"])
    text = doctor(tool, plugin, libraries, **options)
    return dict(line.split(": ", 1) for line in lines if f"\n      {line}\n" in text)


def with_driver(tool, plugin, fakecuda, nccl):
    findings = []
    here = told_by_device(tool, plugin, f"{fakecuda}:{nccl}", FAKECUDA="seed=1")
    nowhere = {f"TENON_CUDA_{option}": "/nowhere/lib.so" for _, option, _ in LIBRARIES.values()}
    absent = told_by_device(tool, plugin, fakecuda, FAKECUDA="seed=1", **nowhere)
    for purpose, (name, _, remedy) in LIBRARIES.items():
        if name == "NCCL" and not nccl:
            remedy = "built without nccl.h: install libnccl-dev"
        elif not re.fullmatch(rf"{name} \d+\.\d+\.\d+", here.get(purpose, "")):
            findings.append(f"{purpose}: {name} is here, and the device says {here.get(purpose)!r}")
        if remedy not in absent.get(purpose, ""):
            findings.append(f"{purpose}: {name} is not here, and the device says {absent.get(purpose)!r}")
    return findings


def main(tool, plugin, no_driver, fakecuda, nccl):
    findings = without_driver(tool, plugin, no_driver) + with_driver(tool, plugin, fakecuda, nccl)
    print("\n".join(findings) or "what is missing is named, with what to install: the driver, and each of its libraries")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
