# SPDX-License-Identifier: Apache-2.0
"""Makes Markdown tables of the C headers (codes, features, functions, frozen elements, extensions, dtypes, ops) and of the
options of a strategy.

Invariant: every cell is taken from a header's own words, so a table is never truer or falser than the header.
"""
import re

INCLUDE = "sdk/include/tenon"


def cell(text):
    return re.sub(r"\s+", " ", re.sub(r"\n\s*\* ?", "\n", text)).strip().replace("|", "\\|")


def table(head, rows):
    if not rows:
        raise LookupError(f"no row was found for the table '{' | '.join(head)}'; has the header changed its form?")
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def header(root, name):
    return (root / INCLUDE / name).read_text(encoding="utf-8")


def defines(text, pattern):
    """(name, value, comment) of every matching #define."""
    return re.findall(rf"^#define ({pattern})\s+(\S+)[ \t]*(?:/\*(.*?)\*/)?", text, re.MULTILINE | re.DOTALL)


def codes(root):
    text = re.search(r"Result codes\.(.*?)TN_CODE_COUNT", header(root, "base.h"), re.DOTALL)[1]
    rows = [(value, f"[`{name}`](errors.md#{name.lower()})" if name != "TN_OK" else f"`{name}`",
             cell(comment) or "it worked; `error` is untouched") for name, value, comment in defines(text, r"TN_[A-Z_]+")]
    return table(("number", "code", "meaning"), rows)


def features(root):
    found = re.findall(r"^#define TN_FEATURE_(\w+) \(1ull << (\d+)\)\s*/\*(.*?)\*/", header(root, "plugin.h"),
                       re.MULTILINE | re.DOTALL)
    return table(("bit", "feature", "meaning"), [(bit, f"`{name}`", cell(words)) for name, bit, words in found])


FUNCTION = re.compile(r"/\*((?:(?!\*/).)*?)\*/\s*[\w ]+?\*?\s*\(\*(\w+)\)\s*\(", re.DOTALL)


def functions(root, name, struct):
    """One row per function of a table: what it does, what its absence means, its contract."""
    body = re.search(rf"struct {struct} \{{(.*?)^\}}", header(root, name), re.DOTALL | re.MULTILINE)[1]
    rows = []
    for words, function in FUNCTION.findall(body):
        words = cell(words)
        contract = re.search(r"\[([^\[\]]*)\]$", words)
        optional = re.match(r"\(optional([^)]*)\)\s*", words)
        absent = re.search(r"(?:NULL|NULL \(the default\)|Absent): ([^.]*(?:\.(?! |$)[^.]*)*)\.", words)
        what = re.split(r"(?<=\.) ", words[optional.end():] if optional else words)[0]
        missing = cell(absent[1]) if absent else "as its pair" if optional else "required"
        rows.append((f"`{function}`", what.rstrip("."), missing, contract[1] if contract else ""))
    return table(("function", "what", "absent", "contract"), rows)


def frozen(root):
    """Every struct whose comment calls it an array element, with its size as layout.h asserts it."""
    rows, sizes = [], dict(re.findall(r"TN_SIZE\((\w+), (\d+)\)", header(root, "layout.h")))
    for name in ("base.h", "fragment.h", "kernel.h", "comm.h"):
        for words, struct in re.findall(r"/\*((?:(?!\*/).)*)\*/\s*typedef struct (\w+) \{", header(root, name), re.DOTALL):
            if "frozen" in words and "Array" in words:
                rest = [part for part in cell(words).split(". ") if not part.startswith("Array element")]
                rows.append((f"`{struct}`", sizes[struct], f"[{name}](../{INCLUDE}/{name})", rest[0].rstrip(".")))
    return table(("struct", "bytes", "header", "what"), rows)


def extensions(root):
    rows = []
    for path in sorted((root / INCLUDE / "ext").glob("*.h")):
        text = path.read_text(encoding="utf-8")
        identifier = re.search(r'_ID "([^"]+)"', text)[1]
        words = re.search(r'extension "[^"]+": (.*?)(?:\n \*\n|\*/)', text, re.DOTALL)[1]
        calls = ", ".join(f"`{name}`" for name in re.findall(r"\(\*(\w+)\)\(", text))
        rows.append((f"`{identifier}`", f"[{path.name}](../{INCLUDE}/ext/{path.name})", cell(words).rstrip("."), calls))
    return table(("id", "header", "what", "functions"), rows)


def methods(root):
    """Every method the author framework asks for, from the sentences its static assertions say."""
    text = re.sub(r'"\s*"', "", header(root, "author/checks.hpp"))
    found = re.findall(r'"(\w+) (needs|may have)(, with \w+)?: ([^"]+)"', text)
    order = ("Plugin", "Device", "Memory", "Stream", "Kernel", "Comm")
    found.sort(key=lambda row: order.index(row[0]))
    return table(("class", "method", ""), [(kind, f"`{cell(sign)}`", ("required" if need == "needs" else "optional") + more)
                                           for kind, need, more, sign in found])


def dtypes(root):
    rows = [(number, f"`{name}`", bits, kind.lower() + (", reserved: no op takes it yet" if reserved else ""))
            for reserved, number, name, bits, kind in re.findall(
                r"^TN_DTYPE(_RESERVED)?\(\s*(\d+), (\w+),\s*(\d+), (\w+)\)", header(root, "dtypes.def"), re.MULTILINE)]
    return table(("number", "name", "bits", "class"), rows)


OP = re.compile(r'^TN_OP\(\s*(\d+),\s*(\w+),\s*(\d+),\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+),'
                r'\s*"([^"]*)",\s*"([^"]*)"\)$')


ENDS = {"-finite": "(-∞", "above_zero": "(0", "finite": "∞)", "below_one": "1)", "2147483647": "2³¹)"}


def ranges(root):
    """(op, attribute) -> what ranges.def lets it be: "[0, 1]", or the words."""
    text = header(root, "ranges.def")
    numbers = re.findall(r"^TN_RANGE\(\s*(\w+),\s*(\w+),\s*([-\w]+),\s*([-\w]+)\)", text, re.MULTILINE)
    out = {(op, name): f"{ENDS.get(low, '[' + low)}, {ENDS.get(high, high + ']')}" for op, name, low, high in numbers}
    for op, name, words in re.findall(r'^TN_WORDS\(\s*(\w+),\s*(\w+),\s*"([^"]*)"\)', text, re.MULTILINE):
        out[op, name] = ", ".join(f"`{word}`" for word in words.split())
    return out


def listed(op, attributes, allowed):
    """ "`rate:float` [0, 1]", one attribute a line."""
    out = []
    for part in filter(None, map(str.strip, attributes.split(";"))):
        told = allowed.get((op, part.split(":")[0]))
        out.append(f"`{part}` {told}" if told else f"`{part}`")
    return "<br>".join(out)


def op_row(match, allowed):
    number, name, version, low, high, outputs, _, dtype, shape, tolerance, attributes, meaning = match.groups()
    many = {"TN_OP_MANY": "any"}
    low, high, outputs = (many.get(text, text) for text in (low, high, outputs))
    inputs = low if low == high else f"{low}…{high}" if high != "any" else f"{low} or more"
    return (number, f"`{name}`", version, inputs, outputs, dtype, shape, tolerance, listed(name, attributes, allowed),
            cell(meaning))


def ops(root):
    """The whole page body: legend and one table per group of ops.def."""
    text = header(root, "ops.def")
    legend = re.search(r"/\* ops\.def: .*?\n \*\n(.*?)\*/", text, re.DOTALL)[1]
    legend = "\n".join(line.removeprefix(" *").removeprefix(" ").rstrip() for line in legend.splitlines()).strip()
    allowed = ranges(root)
    out, rows, title, count = [f"```text\n{legend}\n```\n"], [], None, 0
    head = ("no.", "op", "version", "in", "out", "dtypes", "shape", "tolerance", "attributes", "meaning")
    for line in text.splitlines() + ["/* end */"]:
        group = re.match(r"^/\* (.*?)\s*\*/$", line)
        if group and rows:
            out.append(f"## {title}\n\n{table(head, rows)}")
            count, rows = count + len(rows), []
        if group:
            title = group[1][0].upper() + group[1][1:].split(":")[0].split(";")[0]
        elif line.startswith("TN_OP("):
            row = OP.match(line)
            if not row:
                raise LookupError(f"ops.def: cannot read the row '{line}'")
            rows.append(op_row(row, allowed))
    return f"{count} ops.\n\n" + "\n".join(out)


STRATEGY = "core/include/tenon/strategy.def"
READERS = {"fusion": "fusion", "pattern": "fusion: {0}", "passes": "passes", "overlap": "overlap", "sync": "`GradientSync`",
           "training": "training", "executor": "Executor", "tune": "`tune`",
           "runtime": "`{0}`", "nobody": "waits for {0}", "fixed": "cannot be chosen"}


def option_rows(root):
    """Every row of strategy.def as a dict of its columns' words."""
    text = (root / STRATEGY).read_text(encoding="utf-8")
    columns = ("section", "type", "member", "name", "aliases", "default", "documents", "low", "high", "reader", "detail",
               "what", "when", "why")
    column = r'("[^"]*"|\{\}|[^",()]+)'
    row = re.compile(r"^TN_OPTION\(" + r",\s*".join([column] * len(columns)) + r"\)$", re.MULTILINE)
    rows = [dict(zip(columns, (cell.strip('"') for cell in match.groups()))) for match in row.finditer(text)]
    if len(rows) != len(re.findall(r"^TN_OPTION\(", text, re.MULTILINE)):
        raise LookupError(f"{STRATEGY}: a row does not have the columns {', '.join(columns)}")
    return rows


def default_of(option):
    """As a file would have it."""
    words = {"{}": "[]", "automatic": "auto"}
    return words.get(option["default"], option["default"].split("::")[-1])


def values_of(option):
    """What it may be, in a few words."""
    plain = {"bool": "true, false", "Names": "names", "Groups": "lists of names", "Text": "a name or auto", "Level": "O1, O2",
             "DType": "bf16, f16", "AutoBool": "auto, true, false", "BucketRule": "a mode"}
    if option["type"] in plain:
        return plain[option["type"]]
    low, high = ("above 0" if option["low"] == "above_zero" else option["low"]), option["high"]
    words = f"from {low}" if high == "UINT32_MAX" else f"{low} to {high}"
    return ("auto, " if option["type"].startswith("Auto") else "") + words


# The row is named after the option; of several ranks the peer is: the same step with OPTION=VALUE.
GAIN = re.compile(r"^\| (\w+)/(f32|bf16)/(\w+|\d ranks) \| (?:(\w+)=)?[^|]*\|[^|]*\|[^|]*\| ms \| (\S+) \| (\S+) \|", re.MULTILINE)


CHOICES = "tests/bench/options/choices.cpp"
# The row is named after the step and what both have set; the peer is the option with the value that the default is compared with.
CHOICE = re.compile(r"^\| (\w+)/(\d ranks?)([^|]*) \| (\w+)=([^|]*?) \|[^|]*\|[^|]*\| ms \| (\S+) \| (\S+) \|", re.MULTILINE)

# Options of which no time is measured, because there is no other value to compare with, or none that a time depends on.
NO_TIME = {
    "fusion_off": "names; all off: `enable_auto_fusion`, `fuse_patterns`",
    "must_fuse": "names of your graph", "never_fuse": "names of your graph", "stop_gradient": "names of your graph",
    "custom_white_list": "names; all of them: `amp`", "custom_black_list": "names; all of them: `amp`",
    "init_loss_scaling": "which steps are bad, not how long one takes", "incr_every_n_steps": "as init_loss_scaling",
    "decr_every_n_nan_or_inf": "as init_loss_scaling", "incr_ratio": "as init_loss_scaling", "decr_ratio": "as init_loss_scaling",
    "fuse_broadcast_ops": "the other value has no effect", "replan_drift": "a threshold of what `measure_every` finds",
    "fraction_of_gpu_memory_to_use": "a limit",
    "fuse_attention": "the networks measured have `attention` as a node; beside its products: `./dev bench fusion`, rows `attention_spelled`",
}


def measured(root, suite):
    """The section of a suite in docs/performance.md, or ""."""
    page = root / "docs/performance.md"
    page = page.read_text(encoding="utf-8") if page.exists() else ""
    found = re.search(rf"^## {suite}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def gains(root):
    """{option: what it gained}, of the benchmarks `train` and `options` as docs/performance.md has them."""
    out = {}
    for model, dtype, row, changed, ratio, spread in GAIN.findall(measured(root, "train")):
        step = f"{model} {dtype}, {row}" if changed else f"{model} {dtype}"
        out.setdefault(changed or row, []).append(f"{step}: × {ratio} (spread {spread})")
    for model, ranks, base, option, other, ratio, spread in CHOICE.findall(measured(root, "options")):
        step = model + ("" if ranks == "1 rank" else f", {ranks}") + base
        out.setdefault(option, []).append(f"{step}: × {ratio} against `{other}` (spread {spread})")
    return {option: "<br>".join(words) for option, words in out.items()}


def check_tried(root):
    """Every option is tried by the benchmark `options`, or there is a reason."""
    tried = set(re.findall(r'\{"(\w+)", "', (root / CHOICES).read_text(encoding="utf-8")))
    for row in option_rows(root):
        if (row["name"] in tried) == (row["name"] in NO_TIME or row["reader"] in ("fixed", "nobody")):
            raise LookupError(f"{STRATEGY}: {row['name']}: either {CHOICES} tries another value, or NO_TIME says why no time is measured")


def strategy(root):
    """One table for each heading, with the documents' defaults and what was measured."""
    check_tried(root)
    rows, gained, out = option_rows(root), gains(root), []
    for section in dict.fromkeys(row["section"] for row in rows):
        cells = []
        for row in (row for row in rows if row["section"] == section):
            also = "".join(f"<br>`{alias}`" for alias in row["aliases"].split())
            read_by = READERS[row["reader"]].format(row["detail"].replace(" ", ", ") if row["reader"] == "pattern" else row["detail"])
            cells.append((f"`{row['name']}`{also}", values_of(row), f"`{default_of(row)}`", f"`{row['documents']}`" if row["documents"] else "",
                          cell(row["what"]), cell(row["when"]), read_by, gained.get(row["name"], NO_TIME.get(row["name"], ""))))
        out.append(f"### [{section}]\n\n" + table(("option", "values", "default", "documents", "what it does", "when it helps", "who acts on it",
                                                   "a step is × as fast: on against off, or as by default against another value"), cells))
    return "\n".join(out)


def strategy_differences(root):
    """Where Tenon's default is not the documents', and why; a difference without a reason is a finding."""
    cells = []
    for row in option_rows(root):
        differs = row["documents"] not in ("", default_of(row))
        if differs != bool(row["why"]):
            raise LookupError(f"{STRATEGY}: {row['name']}: " + ("its default is not the documents', and nothing says why" if differs
                                                                else "says why it differs from the documents, and does not"))
        if differs:
            cells.append((f"`{row['name']}`", f"`{default_of(row)}`", f"`{row['documents']}`", cell(row["why"])))
    return table(("option", "Tenon", "documents", "why"), cells)


TABLES = {
    "strategy": strategy, "strategy differences": strategy_differences,
    "codes": codes, "features": features, "frozen": frozen, "extensions": extensions, "dtypes": dtypes, "ops": ops,
    "methods": methods,
    "functions device": lambda root: functions(root, "device.h", "tn_device_api"),
    "functions stream": lambda root: functions(root, "stream.h", "tn_stream_api"),
    "functions kernel": lambda root: functions(root, "kernel.h", "tn_kernel_api"),
    "functions comm": lambda root: functions(root, "comm.h", "tn_comm_api"),
    "functions plugin": lambda root: functions(root, "plugin.h", "tn_plugin"),
    "functions host": lambda root: functions(root, "host.h", "tn_host"),
}
