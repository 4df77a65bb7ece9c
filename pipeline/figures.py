"""What all figures share: palette, type, and a deterministic way from a matplotlib figure to SVG bytes."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from pipeline.contracts import Plot as Plot

INK, GREY, FAINT = "#1a1a1a", "#5c5c5c", "#d9d9d9"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#7F3C8D")
"""Okabe and Ito's colours, told apart with all common colour deficiencies; its yellow is darkened for white paper."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (7, 1.5, 1.5, 1.5)), (0, (10, 2)), (0, (4, 1, 1, 1, 1, 1)))
"""Systems differ in dash as well as in colour, for print in grey; dots are kept for the lines of reference."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
Layout = Literal["constrained", "compressed"]
Styles = dict[str, tuple[str, Any, str]]
WIDTH = 11.6
"""Inches; at 96 px an inch 1114 px, so that a page of 1200 px shows figures at their own size."""

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "voice-privacy",
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.7,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "path.simplify": False,
    "figure.constrained_layout.h_pad": 0.07,
    "figure.constrained_layout.w_pad": 0.07,
}


def draw_svg(width: float, height: float, paint: Callable[[Figure], None], layout: Layout = "constrained") -> str:
    """Paint on a new figure of this size (inches) and return its SVG; equal input gives equal bytes."""
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE}), warnings.catch_warnings():
        # Speaker ids may hold characters that the font lacks; they are drawn as boxes, the CSV has them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasSVG(figure)
        paint(figure)
        buffer = io.StringIO()
        figure.savefig(
            buffer,
            format="svg",
            bbox_inches="tight",
            pad_inches=0.06,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    # Comments only repeat the text of the labels.
    return re.sub(r"<!--.*?-->\n?", "", buffer.getvalue(), flags=re.DOTALL)


def assign_colours(names: Sequence[str]) -> Styles:
    """Colour, dash and marker for each name; ``original`` (also with a run's letter) is grey."""
    styles: Styles = {}
    index = 0
    for name in names:
        if name == "original" or name.startswith("original ·"):
            styles[name] = (GREY, "-", "o")
            continue
        # 7 colours, 5 dashes: no pair comes back among the first 35.
        styles[name] = (PALETTE[index % len(PALETTE)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)])
        index += 1
    return styles


def shorten_label(text: object, most: int = 28) -> str:
    """An id as it may be drawn: printable characters only, long ones cut in the middle."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return shown if len(shown) <= most else f"{shown[: most // 2]}…{shown[-(most // 2 - 1) :]}"


def write_heading(parts: Sequence[str], most: int = 44) -> str:
    """The title of a panel: ``a · b · c``, on two lines where one is too short, as much as fits above."""
    shown = [part for part in parts if part]
    for cut in range(len(shown), 0, -1):
        lines = [" · ".join(part) for part in (shown[:cut], shown[cut:]) if part]
        if all(len(line) <= most for line in lines):
            return "\n".join(shorten_label(line, most) for line in lines)
    return "\n".join(shorten_label(" · ".join(part), most) for part in (shown[:1], shown[1:]) if part)


def format_number(value: float, digits: int = 2) -> str:
    """A number in an alt text."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def make_grid(figure: Figure, panels: int, columns: int, **kwargs: Any) -> list[Axes]:
    """``panels`` axes in rows of ``columns``, the rest of the last row left empty."""
    rows = -(-panels // columns)
    axes: list[Axes] = figure.subplots(rows, columns, squeeze=False, **kwargs).ravel().tolist()
    for empty in axes[panels:]:
        empty.set_axis_off()
    return axes[:panels]


def describe(**names: str) -> str:
    """``subset x, extractor y``, leaving out what is empty."""
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in names.items() if value)
