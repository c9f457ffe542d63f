# SPDX-License-Identifier: Apache-2.0
"""Reports that no one plugin gives: every verdict at once, ops by dtype, hostile texts. They have the very form that a
run wrote, because they are made from one. Invariant: the same report gives the same sample.
"""
import copy
import json
import re

OPS = ("add", "batch_norm_train", "check_finite_and_unscale", "conv2d_grad_weight", "exp", "layer_norm", "matmul", "softmax")
DTYPES = ("bool", "u8", "i8", "i32", "i64", "f16", "bf16", "f32", "f64")
DATA = re.compile(r'(<script type="application/json" id="report">)(.*?)(</script>)', re.DOTALL)
HOSTILE = '</script><img src=x onerror="document.title=1"><b>bold</b> & "quotes" ' + "long" * 60


def data(page):
    """The report that a page carries."""
    return json.loads(DATA.search(page)[2])


def page_with(page, report):
    """The same page with another report in it."""
    text = json.dumps(report).replace("<", "\\u003c")
    return DATA.sub(lambda found: found[1] + text + found[3], page, count=1)


def verdict_of(op, dtype):
    if op == "conv2d_grad_weight":
        return "unsupported"
    if (op, dtype) == ("softmax", "bf16"):
        return "failed"
    if (op, dtype) == ("matmul", "f16"):
        return "expected failure"
    if (op, dtype) == ("exp", "f64"):
        return "unexplained"
    return "unexpected pass" if (op, dtype) == ("add", "bool") else "passed"


def case(like, name, level, verdict, **more):
    out = copy.deepcopy(like) | {"name": name, "level": level, "verdict": verdict, "fails": verdict == "failed",
                                 "declared": "", "expires": "", "output": "", **more}
    out["finding"] |= {"failures": [], "warnings": [], "reason": "", "tag": ""}
    out["again"] = f"tenon conform ./tenon-acme.so --filter '{name}' --seed 1 --quick"
    return out


def op_case(like, op, dtype, shape):
    out = case(like, f"{op}: {dtype} {shape}", 1, verdict_of(op, dtype), op=op, dtype=dtype)
    finding = out["finding"]
    if out["verdict"] == "failed":
        finding["failures"] = ["element 37 of [3, 129] is 0.12408447, expected 0.12451172: 3.5 ULP, at most 2 are allowed",
                               "worst normalised error 3.4e-3", HOSTILE]
        out["output"] = "acme: kernel softmax_bf16 variant 3\n" * 12
    elif out["verdict"] == "expected failure":
        finding["failures"] = ["accumulates in f16: normalised error 2e-2"]
        out |= {"declared": "accumulates in f16 until firmware 5.2", "expires": "2027-06-30"}
    elif out["verdict"] in ("unsupported", "unexplained"):
        finding |= {"tag": f"op.{op}.{dtype}", "reason": f"supports says no: {op} takes no {dtype} here"}
        out["declared"] = "convolution gradients are not computed yet" if out["verdict"] == "unsupported" else ""
    elif out["verdict"] == "unexpected pass":
        finding["warnings"] = ["works, although acme.capabilities.toml declares otherwise: bool is not added"]
    return out


def every_verdict(report):
    """`report` with op cases of every verdict, a skipped and a lost case, figures and a complaint."""
    out, like = copy.deepcopy(report), report["cases"][0]
    cases = [op_case(like, op, dtype, shape) for op in OPS for dtype in DTYPES
             for shape in ("rank 0", "[3, 129]", "strided") if (op, dtype) != ("layer_norm", "bool")]
    cases.append(case(like, "memory: more than 4 GiB", 0, "skipped"))
    cases[-1]["finding"]["reason"] = "the device has 2 GiB"
    cases.append(case(like, "leaving: exit while busy", 0, "not run", fails=True))
    out["cases"] += cases
    out["verdicts"] = {}
    for one in out["cases"]:
        out["verdicts"][one["verdict"]] = out["verdicts"].get(one["verdict"], 0) + 1
    out["gaps"] = [{"tags": [f"op.conv2d_grad_weight.{dtype}" for dtype in DTYPES], "cases": 27, "explained": True,
                    "reason": "convolution gradients are not computed yet", "kinds": ["op.conv2d_grad_weight.*"]},
                   {"tags": ["op.exp.f64"], "cases": 3, "explained": False, "kinds": ["op.exp.f64"],
                    "reason": "supports says no: exp takes no f64 here"}]
    out["tolerances"] = [{"op": "exp", "dtype": "f16", "allows": "4 times the usual", "factor": 4, "ulp": 0, "cases": 3,
                          "needed": 2, "expired": False, "expires": "2027-06-30", "reason": "a table of 256 entries"}]
    out["remarks"] = ["acme.capabilities.toml: [[tolerance]] of op 'tanh' in f16: 3 cases were executed, and none needed it"]
    out |= {"passed": False, "executed": len(out["cases"]) - 2, "verify": True, "trouble": "the device was lost",
            "complaints": ["acme.capabilities.toml: [[unsupported]] 'stream.promise' excuses nothing: take it out"]}
    return out
