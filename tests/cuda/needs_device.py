#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What no run over the test-only driver can show: the results of NVIDIA's libraries, which need a device.

Such a run leaves those libraries out, and its declarations say so: needs_device.toml before the plugin's own. What they are
told is looked at by tests of its own (tests/unit/cuda/product_test.cpp, convolution_test.cpp, attention_test.cpp, nccl_test.cpp).
Invariant: a case that needs a device is counted and told, and never passes.
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
REASON = "needs a device: "


def arguments(plugin, folder):
    """Of `tenon conform`, for a run over the test-only driver; the declarations are written into `folder`."""
    own = pathlib.Path(plugin).with_name("cuda.capabilities.toml")
    declared = pathlib.Path(folder) / "capabilities.toml"
    declared.write_text((HERE / "needs_device.toml").read_text(encoding="utf-8") + own.read_text(encoding="utf-8"),
                        encoding="utf-8")
    return ["--option", "cublaslt=off", "--option", "cudnn=off", "--option", "nccl=off", "--capabilities", str(declared)]


def tell(report):
    """A line that counts the cases of a JSON report which need a device."""
    cases = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))["cases"]
    count = sum(str(case.get("declared", "")).startswith(REASON) for case in cases)
    print(f"{count} cases need a device: what NVIDIA's libraries compute is not shown here", flush=True)
