# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG, without a library: bars with marks at their targets, lines on two logarithmic scales, and what ran when.

Invariant: what is drawn is where its number says, on the scale that is written beside it; names are escaped.
"""
import math
import xml.sax.saxutils

COLOURS = {True: "#4e9a57", False: "#c8642d", None: "#8a93a0"}  # met, missed, not judged
WORK = {"kernel": "#3b6fb0", "copy": "#8a93a0", "collective": "#c8642d"}
LINES = ("#3b6fb0", "#c8642d", "#4e9a57", "#8a5fb0", "#8a93a0")
ROW, LABELS, PLOT, MARGIN = 20, 300, 420, 12
STYLE = ("<style>text{font:12px sans-serif;fill:#222}.grid{stroke:#ddd}.axis{stroke:#555}.aim{stroke:#000;stroke-width:2}"
         ".guide{stroke:#999;stroke-dasharray:4 3;fill:none}</style>")


def number(value):
    return f"{value:.1f}"


def text(x, y, words, anchor="start"):
    return (f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">'
            f"{xml.sax.saxutils.escape(words)}</text>")


def line(kind, x1, y1, x2, y2):
    return f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"/>'


def page(width, height, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}">', STYLE, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", ""])


def bar_chart(bars, place, origin, ticks, shown):
    """Bars from `origin` to their figure; `place` maps a figure to 0…1, `ticks` are (figure, words)."""
    height = len(bars) * ROW + 3 * MARGIN + ROW

    def x(figure):
        return LABELS + PLOT * place(figure)

    parts = []
    for figure, words in ticks:
        parts += [line("axis" if figure == origin else "grid", x(figure), MARGIN, x(figure), height - 2 * MARGIN - 4),
                  text(x(figure), height - MARGIN, words, "middle")]
    for i, (name, figure, aim, met) in enumerate(bars):
        top = MARGIN + i * ROW
        begin, end = sorted((x(origin), x(figure)))
        parts += [text(LABELS - 8, top + ROW - 6, name, "end"),
                  f'<rect x="{number(begin)}" y="{number(top + 3)}" width="{number(end - begin)}" '
                  f'height="{ROW - 6}" fill="{COLOURS[met]}"/>']
        if aim is not None:
            parts.append(line("aim", x(aim), top + 1, x(aim), top + ROW - 1))
        parts.append(text(LABELS + PLOT + 8, top + ROW - 6, shown(figure)))
    return page(LABELS + PLOT + 70, height, parts)


def ratio_bars(bars):
    """Bars of (name, ratio, target or None, met) on a logarithmic scale around 1."""
    figures = [1.0] + [figure for _, figure, _, _ in bars] + [aim for _, _, aim, _ in bars if aim]
    low, high = math.floor(math.log2(min(figures))), math.ceil(math.log2(max(figures)))
    high = max(high, low + 1)
    ticks = [(2.0 ** power, f"{2.0 ** power:g}") for power in range(low, high + 1)]
    return bar_chart(bars, lambda figure: (math.log2(figure) - low) / (high - low), 1.0, ticks, lambda f: f"{f:.2f}")


def part_bars(bars):
    """Bars of (name, part, target or None, met) of a limit, from 0; a part above 1 means that the limit was none."""
    high = max([1.0] + [figure for _, figure, _, _ in bars])
    ticks = [(part / 4, f"{part * 25} %") for part in range(int(high * 4) + 1)]
    return bar_chart(bars, lambda figure: figure / high, 0.0, ticks, lambda f: f"{f:.0%}")


def powers(figures):
    """The powers of ten around some figures, as exponents."""
    low, high = math.floor(math.log10(min(figures))), math.ceil(math.log10(max(figures)))
    return low, max(high, low + 1)


def growth(families):
    """Lines of {name: ([(size, figure)], unit)} on two logarithmic scales, each beside what would be linear."""
    width, height, left, right, bottom = 740, 420, 70, 520, 370
    sizes = [size for points, _ in families.values() for size, _ in points]
    figures = [figure for points, _ in families.values() for _, figure in points]
    (x_low, x_high), (y_low, y_high) = powers(sizes), powers(figures)

    def place(size, figure):
        return (left + (right - left) * (math.log10(size) - x_low) / (x_high - x_low),
                bottom - (bottom - 30) * (math.log10(figure) - y_low) / (y_high - y_low))

    parts = []
    for power in range(x_low, x_high + 1):
        x, y = place(10.0 ** power, 10.0 ** y_low)
        parts += [line("grid", x, 30, x, y), text(x, y + 18, f"{10 ** power:,}", "middle")]
    for power in range(y_low, y_high + 1):
        x, y = place(10.0 ** x_low, 10.0 ** power)
        parts += [line("grid", x, y, right, y), text(x - 8, y + 4, f"{10.0 ** power:g}", "end")]
    units = sorted({unit for _, unit in families.values()})
    parts += [text((left + right) / 2, bottom + 40, "nodes", "middle"), text(left - 8, 18, " / ".join(units), "end")]
    for i, (name, (points, _)) in enumerate(families.items()):
        colour = LINES[i % len(LINES)]
        (first, low), (last, _) = points[0], points[-1]
        guide = [place(first, low), place(last, low * last / first)]
        if guide[1][1] >= 30:
            parts.append(line("guide", *guide[0], *guide[1]))
        way = [place(*point) for point in points]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
                     + " ".join(f"{number(x)},{number(y)}" for x, y in way) + '"/>')
        parts += [f'<circle cx="{number(x)}" cy="{number(y)}" r="3.5" fill="{colour}"/>' for x, y in way]
        parts.append(text(right + 28, 48 + 20 * i, f"{name}: {points[-1][1]:.3g} at {points[-1][0]:,}"))
        parts.append(f'<rect x="{right + 14}" y="{38 + 20 * i}" width="8" height="8" fill="{colour}"/>')
    parts.append(text(right + 28, 48 + 20 * len(families), "dashed: linear"))
    return page(width, height, parts)


def step_of(floor, most):
    """The distance of marks on a scale from 0 to `most`, of which there are `floor` at least: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(most / floor))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= most / floor)


def lanes(panels):
    """Panels of (title, [(lane, [(kind, begin, end)])]), one below the other on one scale of milliseconds."""
    left, width = 110, 640
    most = max(end for _, rows in panels for _, events in rows for _, _, end in events)
    parts, top = [], MARGIN
    for title, rows in panels:
        ends = max(end for _, events in rows for _, _, end in events)
        parts.append(text(left, top + ROW - 6, f"{title}: {ends:.0f} ms"))
        top += ROW
        for name, events in rows:
            parts.append(text(left - 8, top + ROW - 6, name, "end"))
            for kind, begin, end in events:
                parts.append(f'<rect x="{number(left + width * begin / most)}" y="{top + 3}" height="{ROW - 6}" '
                             f'width="{number(max(width * (end - begin) / most, 0.1))}" fill="{WORK[kind]}"/>')
            top += ROW
        top += MARGIN
    mark = step_of(4, most)
    for i in range(int(most / mark) + 1):
        x = left + width * i * mark / most
        parts = [line("grid", x, MARGIN, x, top), *parts, text(x, top + 14, f"{i * mark:g}", "middle")]
    x = left
    for kind, words in (("kernel", "computing, averages"), ("collective", "collectives"), ("copy", "copies")):
        parts += [f'<rect x="{x}" y="{top + 26}" width="8" height="8" fill="{WORK[kind]}"/>', text(x + 14, top + 34, words)]
        x += 160
    return page(left + width + 40, top + 46, parts)
