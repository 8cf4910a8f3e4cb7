#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns what a terminal showed (stdin; lines that begin with `$ ` were typed) into a picture of it (SVG, stdout)."""
import html
import sys
import textwrap

COLUMNS, LINE, CHARACTER, MARGIN, BAR = 112, 18, 7.83, 18, 34
COLOURS = {"typed": "#e6edf3", "prompt": "#7ee787", "said": "#adbac7", "refused": "#ff938a", "head": "#79c0ff"}


def lines_of(transcript):
    """(what it is, text) of each line, long ones broken as a terminal would."""
    for line in transcript.splitlines():
        kind = "typed" if line.startswith("$ ") else "said"
        if line.startswith("tranche: "):
            kind = "refused"
        elif kind == "said" and line[:1].isupper() and line == line.upper():
            kind = "head"
        yield from ((kind, part) for part in textwrap.wrap(
            line, COLUMNS, drop_whitespace=False, subsequent_indent="    ", break_on_hyphens=False) or [""])


def text(x, y, kind, words):
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{COLOURS[kind]}">{html.escape(words)}</text>'


def picture(transcript):
    lines = list(lines_of(transcript.strip("\n")))
    width, height = 2 * MARGIN + COLUMNS * CHARACTER, BAR + 2 * MARGIN + len(lines) * LINE
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
           ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13"'
           ' xml:space="preserve">',
           f'<rect width="100%" height="100%" rx="10" fill="#0d1117"/><rect width="100%" height="{BAR}" rx="10"'
           ' fill="#161b22"/>']
    out += [f'<circle cx="{20 + 20 * i}" cy="{BAR / 2:.0f}" r="6" fill="{colour}"/>'
            for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))]
    for number, (kind, line) in enumerate(lines):
        y = BAR + MARGIN + (number + 0.75) * LINE
        if line.startswith("$ ") and kind == "typed":
            out.append(text(MARGIN, y, "prompt", "$"))
            line = "  " + line[2:]
        if line.strip():
            out.append(text(MARGIN, y, kind, line))
    return "\n".join(out + ["</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(picture(sys.stdin.read()))
