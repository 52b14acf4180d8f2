"""Still and moving pictures of boards, as the bytes of PNG and GIF files."""

import io
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from protoalign.report.replay import Game, Thinking

# One colour per prototype, in every picture of a page. White text can be read on each, and each stands out on black and white.
COLOURS = ("#9a6f1f", "#1f7f52", "#3a66d6", "#c2407c", "#66728a", "#8a4fd0", "#a8482a", "#0f7d8c", "#5d7a16", "#7a5c99")
GOOD, BAD = "#2fb573", "#e5484d"  # rewards
BACK, EDGE, INK, FAINT = "#12161d", "#2b323d", "#e8ebf0", "#98a2b3"  # of the moving pictures, whatever surrounds them

BOARD = 320  # screen pixels of a board's side, about
PANEL = 272  # ... of the beliefs beside it
MARGIN, HEADER = 12, 40
STEP, REST = 200, 1600  # milliseconds that a picture and the last one stay
MOST_FRAMES = 100

ARROWS = {"none": "·", "up": "↑", "down": "↓", "left": "←", "right": "→"}
ARROWS |= {f"move-{way}": ARROWS[way] for way in ("up", "down", "left", "right")} | {"noop": "·"}
ARROWS |= {"do": "×", "sleep": "z"}
ARROWS |= {f"place-{what}": "▪" for what in ("stone", "table", "furnace", "plant")}
ARROWS |= {f"make-{what}-{tool}": "+" for what in ("wood", "stone", "iron") for tool in ("pickaxe", "sword")}
SHOTS = {"fire-up": "⇑", "fire-down": "⇓", "fire-left": "⇐", "fire-right": "⇒"}


def colour(prototype: int) -> str:
    return COLOURS[prototype % len(COLOURS)]


def glyph(action: str) -> str:
    """An action as one sign, if there is one for it."""
    return (ARROWS | SHOTS).get(action, action)


def signed(value: float) -> str:
    """A sum of rewards as people write it: +1, 0, −0.5."""
    return "0" if value == 0 else f"{round(value, 3):+g}".replace("-", "−")


def png(picture: np.ndarray) -> bytes:
    """Pixel for pixel; a page enlarges it."""
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "PNG", optimize=True)
    return data.getvalue()


def gif(frames: list[Image.Image], rest: int = REST) -> bytes:
    """An endless film. All frames share one set of colours, so that a frame costs only what has changed in it."""
    picked = frames[:: max(1, len(frames) // 8)] + frames[-1:]
    montage = Image.new("RGB", (frames[0].width, frames[0].height * len(picked)))
    for i, frame in enumerate(picked):
        montage.paste(frame, (0, i * frame.height))
    colours = montage.quantize(255, Image.Quantize.MEDIANCUT)
    films = [frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames]
    data = io.BytesIO()
    films[0].save(
        data, "GIF", save_all=True, append_images=films[1:], loop=0, duration=[STEP] * (len(films) - 1) + [rest], optimize=False
    )
    return data.getvalue()


def games(before: Game, after: Game, action_names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Two films of equal length: the shorter game waits at its end, so that both start over together."""
    longest = max(len(before.pictures), len(after.pictures))
    films = []
    for game in (before, after):
        films.append(gif(game_frames(game, action_names), REST + STEP * (longest - len(game.pictures))))
    return films[0], films[1]


def game_frames(game: Game, action_names: tuple[str, ...]) -> list[Image.Image]:
    frames = []
    for t, picture in enumerate(game.pictures):
        doing = glyph(action_names[game.actions[t]]) if t < len(game.actions) else "end"
        board = _enlarged(picture)
        frame, draw = _canvas(board.width + 2 * MARGIN, board.height + HEADER + MARGIN)
        _header(draw, frame.width, f"step {t}", doing, sum(game.rewards[:t]))
        _board(frame, draw, board, game.rewards[t - 1] if t else 0)
        frames.append(frame)
    return frames


def exploration(thinking: Thinking) -> bytes:
    """A film of the exploration: the board, and beside it what each look is believed to be."""
    frames, total, last = [], 0.0, 0.0
    trace = thinking.trace[:MOST_FRAMES]
    for i, moment in enumerate(trace):
        if i == 0 or trace[i - 1].episode != moment.episode:
            start, total, last = i, 0.0, 0.0
        frame, draw = _exploration_frame(thinking, moment.picture, moment.belief, last)
        doing = glyph(thinking.action_names[moment.action])
        _header(draw, frame.width, f"episode {moment.episode + 1}   step {i - start}", doing, total)
        total, last = total + moment.reward, moment.reward
        frames.append(frame)
    frame, draw = _exploration_frame(thinking, trace[-1].picture, thinking.belief, 0)
    draw.text((MARGIN, HEADER / 2), f"all episodes together: {thinking.episodes}", INK, _font(17), "lm")
    return gif([*frames, frame], 2 * REST)


def _exploration_frame(
    thinking: Thinking, picture: np.ndarray, belief: np.ndarray, reward: float
) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    board, looks, kinds = _enlarged(picture), thinking.looks, len(thinking.names)
    height = max(board.height, 24 * len(looks) + 48)
    frame, draw = _canvas(board.width + PANEL + 4 * MARGIN, height + HEADER + MARGIN)
    _board(frame, draw, board, reward)
    left, right = board.width + 3 * MARGIN, frame.width - MARGIN
    row = (height - 48) / len(looks)
    side = int(min(36, row - 4))
    for i, tile in enumerate(looks):
        y = int(HEADER + row * (i + 0.5))
        _tile(frame, tile, left, y - side // 2, side)
        if i >= len(belief):
            draw.text((left + side + 10, y), "not met yet", FAINT, _font(14), "lm")
            continue
        _stack(draw, belief[i], (left + side + 10, y - side // 3, right - side - 10, y + side // 3))
        if belief[i].max() > 0.5:
            _tile(frame, thinking.source[belief[i].argmax()], right - side, y - side // 2, side)
        else:
            draw.text((right - side / 2, y), "?", FAINT, _font(17), "mm")
    for c in range(kinds):  # which colour is which prototype
        x, y, side = left + c * (right - left) // kinds, HEADER + height - 24, 22
        draw.rectangle((x, y, x + 6, y + side - 1), colour(c))
        _tile(frame, thinking.source[c], x + 9, y, side)
    return frame, draw


def _canvas(width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    frame = Image.new("RGB", (width, height), BACK)
    return frame, ImageDraw.Draw(frame)


def _header(draw: ImageDraw.ImageDraw, width: int, left: str, middle: str, total: float) -> None:
    shade = GOOD if total > 0 else BAD if total < 0 else INK
    draw.text((MARGIN, HEADER / 2), left, FAINT, _font(17), "lm")
    draw.text((width / 2, HEADER / 2), middle, INK, _font(20), "mm")
    draw.text((width - MARGIN, HEADER / 2), f"return {signed(total)}", shade, _font(17), "rm")


def _board(frame: Image.Image, draw: ImageDraw.ImageDraw, board: Image.Image, reward: float) -> None:
    """A board whose rim lights up when the step before gave a reward."""
    rim = GOOD if reward > 0 else BAD if reward < 0 else EDGE
    draw.rectangle((MARGIN - 4, HEADER - 4, MARGIN + board.width + 3, HEADER + board.height + 3), rim)
    frame.paste(board, (MARGIN, HEADER))


def _stack(draw: ImageDraw.ImageDraw, belief: np.ndarray, box: tuple[int, int, int, int]) -> None:
    """Probabilities [C] as one bar."""
    left, top, right, bottom = box
    ends = left + np.round(np.cumsum(belief) / belief.sum() * (right - left)).astype(int)
    for c, (start, end) in enumerate(zip([left, *ends[:-1]], ends, strict=True)):
        if end > start:
            draw.rectangle((int(start), top, int(end) - 1, bottom), colour(c))


def _tile(frame: Image.Image, tile: np.ndarray, x: int, y: int, side: int) -> None:
    frame.paste(Image.fromarray(tile).resize((side, side), Image.Resampling.NEAREST), (int(x), int(y)))


def _enlarged(picture: np.ndarray) -> Image.Image:
    """By a whole number, so that pixels stay square and sharp."""
    scale = max(1, BOARD // max(picture.shape[:2]))
    return Image.fromarray(picture.repeat(scale, 0).repeat(scale, 1))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """The font that comes with matplotlib: the same everywhere, and it has all arrows."""
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size)
