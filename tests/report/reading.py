"""Reading pages: their text, their pictures."""

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

from PIL import Image


class Reader(HTMLParser):
    """Pictures and text of a page; complains if a tag is not closed."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.images: list[dict[str, str]] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag in ("img", "source"):
            values = {name: value or "" for name, value in attrs}
            self.images.append(values | {"src": values.get("src") or values["srcset"], "class": values.get("class", "still")})
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data + " "


def pictures_of(html: str, kind: str) -> list[Any]:
    """Decoded pictures whose class begins with `kind`: Pillow images, or roots of SVG. All must be part of the page."""
    found: list[Any] = []
    for image in Reader(html).images:
        head, data = image["src"].split(",", 1)
        form = re.fullmatch(r"data:image/(png|gif|svg\+xml);base64", head)
        assert form
        content = base64.b64decode(data, validate=True)
        opened = ElementTree.fromstring(content) if form[1] == "svg+xml" else Image.open(io.BytesIO(content))
        if image["class"].split()[0] == kind:
            found.append(opened)
    return found
