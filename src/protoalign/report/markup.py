"""The pieces of HTML a page is made of. Whatever comes from outside is escaped here; titles and captions are HTML."""

import base64
from html import escape
from typing import Any

import numpy as np

from protoalign.report.pictures import colour, png


def section(title: str, about: str, body: str) -> str:
    return f'<section>\n<h2>{title}</h2>\n<p class="about">{about}</p>\n{body}\n</section>\n'


def figure(body: str, caption: str, title: str = "", kind: str = "") -> str:
    head = f"<h3>{title}</h3>" if title else ""
    tail = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure class="{kind}">{head}{body}{tail}</figure>\n'


def img(data: bytes, alt: str, kind: str) -> str:
    """A picture that is part of the page."""
    form = "png" if data.startswith(b"\x89PNG") else "gif" if data.startswith(b"GIF8") else "svg+xml"
    return f'<img class="{kind}" src="data:image/{form};base64,{base64.b64encode(data).decode()}" alt="{escape(alt)}">'


def tile(picture: np.ndarray, alt: str) -> str:
    return img(png(picture), alt, "tile pixels")


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


def notice(lines: list[str]) -> str:
    """What a reader should know; nothing if there is nothing."""
    items = "".join(f"<li>{escape(str(line))}</li>" for line in lines)
    return f'<div class="notice" role="note"><b>Worth knowing</b><ul>{items}</ul></div>\n' if lines else ""


def table(rows: dict[str, Any]) -> str:
    cells = "".join(f"<tr><td>{escape(str(key))}</td><td>{escape(str(value))}</td></tr>" for key, value in rows.items())
    return f'<table class="plain"><tbody>{cells}</tbody></table>'


def measured(result: dict[str, Any], key: str) -> str:
    """A mean and its standard error."""
    mean = f"{result[key]:.2f}".replace("-", "−")
    return f"{mean} <span>± {result[f'{key}_se']:.2f}</span>"


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
