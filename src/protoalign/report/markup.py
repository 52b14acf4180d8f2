"""The pieces of HTML a page is made of. Whatever comes from outside is escaped here; titles and captions are HTML."""

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from protoalign.report.pictures import colour, png


def escape(text: Any) -> str:
    """Any text as it is; what no page can hold, as a code."""
    return html.escape(str(text).encode(errors="backslashreplace").decode())


def section(title: str, about: str, body: str) -> str:
    return f'<section>\n<h2>{title}</h2>\n<p class="about">{about}</p>\n{body}\n</section>\n'


def figure(body: str, caption: str, title: str = "", kind: str = "") -> str:
    head = f"<h3>{title}</h3>" if title else ""
    tail = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure class="{kind}">{head}{body}{tail}</figure>\n'


def data(content: bytes) -> str:
    """A picture as part of the page."""
    form = "png" if content.startswith(b"\x89PNG") else "gif" if content.startswith(b"GIF8") else "svg+xml"
    return f"data:image/{form};base64,{base64.b64encode(content).decode()}"


def img(content: bytes, alt: str, kind: str) -> str:
    return f'<img class="{kind}" src="{data(content)}" alt="{escape(alt)}">'


def film(moving: bytes, still: bytes, alt: str) -> str:
    """A film, or its last frame for readers who want nothing to move."""
    calm = f'<source media="(prefers-reduced-motion: reduce)" srcset="{data(still)}">'
    return f"<picture>{calm}{img(moving, alt, 'film pixels')}</picture>"


def tile(picture: np.ndarray, alt: str) -> str:
    return img(png(picture), alt, "tile pixels")


def pair(left: str, right: str) -> str:
    """Tiles with an arrow between them."""
    return f'<div class="pair">{left}<span class="arrow" aria-hidden="true">→</span>{right}</div>'


def name(kind: str, prototype: int) -> str:
    """A prototype's name beside its colour."""
    return f'<span class="name" style="--c:{colour(prototype)}"><span class="dot"></span>{escape(kind)}</span>'


def meter(probability: float, prototype: int) -> str:
    return (
        f'<div class="meter" style="--p:{probability:.4f};--c:{colour(prototype)}">'
        f'<span class="track"><span class="fill"></span></span><span>{probability:.4f}</span></div>'
    )


def cell(kind: str, prototype: int, probability: float) -> str:
    """One number of a belief, the more coloured the more probable; its name shows where the table's head does not."""
    number = "&lt;0.001" if 0 < probability < 0.001 else f"{probability:.3f}"
    strong = " strong" if probability > 0.55 else ""
    return (
        f'<td class="cell"><span class="belief{strong}" style="--p:{probability:.4f};--c:{colour(prototype)}">{number}'
        f"<i>{escape(kind)}</i></span></td>"
    )


def card(label: str, value: str, note: str, good: bool | None = None) -> str:
    shade = {None: "", True: "good", False: "bad"}[good]
    return f'<div class="{shade}"><dt>{label}</dt><dd>{value}<small>{note}</small></dd></div>\n'


def pill(text: str, shade: str = "") -> str:
    return f'<span class="pill {shade}">{escape(text)}</span>'


def notice(lines: Sequence[str]) -> str:
    """What a reader should know; nothing if there is nothing."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<div class="notice" role="note"><b>Worth knowing</b><ul>{items}</ul></div>\n' if lines else ""


def table(rows: dict[str, Any]) -> str:
    """Names and what they are."""
    cells = "".join(f'<tr><th scope="row">{escape(key)}</th><td>{escape(value)}</td></tr>' for key, value in rows.items())
    return f'<table class="plain"><tbody>{cells}</tbody></table>'


def grid(heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Rows of texts below heads; the first column is what the rows are called."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(key)}</th>{"".join(f"<td>{escape(text)}</td>" for text in texts)}</tr>\n'
        for key, texts in rows.items()
    )
    return (
        f'<div class="scroll" tabindex="0"><table class="plain grid"><thead><tr><td></td>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>"
    )


def decimal(value: float, digits: int = 2) -> str:
    """A number as people write it, never minus nothing."""
    text = f"{value:,.{digits}f}"
    return (text.lstrip("-") if not text.strip("-0.,") else text).replace("-", "−")


def measured(mean: float, error: float) -> str:
    """A mean and its standard error."""
    return f"{decimal(mean)} <span>± {decimal(error)}</span>"


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
