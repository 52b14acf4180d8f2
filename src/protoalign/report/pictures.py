"""Still and moving pictures, as the bytes of PNG and GIF files. Pictures and tiles may have any size."""

import colorsys
import io
import re
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from protoalign.report.story import Finding, Game, Trace

# One colour per prototype, in every picture of a page. White text can be read on each, and each stands out on black and white.
COLOURS = ("#9a6f1f", "#1f7f52", "#3a66d6", "#c2407c", "#66728a", "#8a4fd0", "#a8482a", "#0f7d8c", "#5d7a16", "#7a5c99")
GOOD, BAD = "#2fb573", "#e5484d"  # rewards
BACK, EDGE, INK, FAINT = "#12161d", "#2b323d", "#e8ebf0", "#98a2b3"  # of the moving pictures, whatever surrounds them

MARK = "#ffe14d"  # around the tiles of a type

BOARD = 320  # screen pixels of a picture's longer side, about
MARKED = 192  # ... of one with marks
PANEL = 272  # ... of the beliefs beside it
MARGIN, HEADER = 12, 40
STEP, REST = 200, 1600  # milliseconds that a picture and the last one stay
MOST_FRAMES = 100  # of finding out
MOST_TYPES = 16  # shown beside it

WAYS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "north": "↑", "south": "↓", "west": "←", "east": "→", "forward": "↑"}
SHOTS = {"↑": "⇑", "↓": "⇓", "←": "⇐", "→": "⇒"}
TURNS = {"←": "↶", "→": "↷"}
SIGNS = (
    ({"none", "noop", "wait", "stay", "idle"}, "·"),
    ({"do", "act", "use", "interact", "toggle", "collect"}, "×"),
    ({"pickup", "pick", "grab", "take"}, "▴"),
    ({"place", "put", "drop", "dropoff"}, "▪"),
    ({"make", "craft", "build"}, "+"),
    ({"sleep", "rest"}, "z"),
)


def colour(prototype: int) -> str:
    if prototype < len(COLOURS):
        return COLOURS[prototype]
    red, green, blue = colorsys.hls_to_rgb(0.618034 * prototype % 1, 0.36, 0.45)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def glyph(action: str) -> str:
    """An action as one sign, by the words of its name; the first letters of any other."""
    words = re.findall(r"[a-z]+", action.lower())
    sign = next((sign for known, sign in SIGNS if known & {*words}), None)
    way = next((WAYS[word] for word in words if word in WAYS), None)
    if sign or not way:
        return sign or action[:3]
    turning, shooting = {"turn", "rotate"} & {*words}, {"fire", "shoot", "zap"} & {*words}
    return TURNS.get(way, way) if turning else SHOTS[way] if shooting else way


def signed(value: float) -> str:
    """A sum of rewards as people write it: +1, 0, −0.5."""
    return "0" if round(value, 3) == 0 else f"{round(value, 3):+g}".replace("-", "−")


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


def still(frame: Image.Image) -> bytes:
    """One frame, for readers who want nothing to move."""
    return png(np.asarray(frame))


def games(before: Game, after: Game, actions: tuple[str, ...]) -> list[tuple[bytes, bytes]]:
    """Two films, each with its last frame. They are equally long: the shorter game waits at its end."""
    longest = max(len(before.pictures), len(after.pictures))
    films = []
    for game in (before, after):
        frames = game_frames(game, actions)
        films.append((gif(frames, REST + STEP * (longest - len(frames))), still(frames[-1])))
    return films


def game_frames(game: Game, actions: tuple[str, ...]) -> list[Image.Image]:
    frames = []
    for t, picture in enumerate(game.pictures):
        ending = "end" if game.whole else "cut here"
        doing = glyph(actions[game.actions[t]]) if t < len(game.actions) else ending
        board = enlarged(picture)
        frame, draw = _canvas(max(board.width, 240) + 2 * MARGIN, board.height + HEADER + MARGIN)
        _header(draw, frame.width, f"step {t}", doing, sum(game.rewards[:t]))
        _board(frame, draw, board, game.rewards[t - 1] if t else 0)
        frames.append(frame)
    return frames


def marked(picture: np.ndarray, cells: np.ndarray) -> bytes:
    """A picture with a line around the cells [H, W] bool that are meant."""
    board = enlarged(picture, MARKED)
    draw = ImageDraw.Draw(board)
    xs, ys = (_edges(size, n) for size, n in zip(board.size, cells.shape[::-1], strict=True))
    around = np.pad(cells, 1)
    lines = []
    for y, x in np.argwhere(cells).tolist():
        left, right, top, bottom = xs[x], xs[x + 1], ys[y], ys[y + 1]
        sides = {
            (left, top, right, top): around[y, x + 1],
            (left, bottom, right, bottom): around[y + 2, x + 1],
            (left, top, left, bottom): around[y + 1, x],
            (right, top, right, bottom): around[y + 1, x + 2],
        }
        lines += [line for line, inside in sides.items() if not inside]
    for shade, wide in (("#000000", 4), (MARK, 2)):
        for line in lines:
            draw.line(line, shade, wide)
    return png(np.asarray(board))


def _edges(size: int, count: int) -> list[int]:
    """Where cells begin and end, the outermost a pixel inside so that lines there are seen."""
    return np.linspace(0, size, count + 1).round().astype(int).clip(1, max(size - 1, 1)).tolist()


def finding_out(found: Finding, trace: Trace) -> tuple[bytes, bytes]:
    """A film of finding out, and its last frame: the picture, and beside it what each tile type is believed to be."""
    frames, total, last, start = [], 0.0, 0.0, 0
    shown = min(MOST_FRAMES, len(trace.pictures))
    for t in range(shown):
        if t == 0 or trace.episode[t - 1] != trace.episode[t]:
            start, total, last = t, 0.0, 0.0
        frame, draw = _finding_frame(found, trace.pictures[t], trace.belief[t], trace.met[t], last)
        doing = glyph(found.actions[int(trace.action[t])])
        _header(draw, frame.width, f"episode {trace.episode[t] + 1}   step {t - start}", doing, total)
        total, last = total + float(trace.reward[t]), float(trace.reward[t])
        frames.append(frame)
    frame, draw = _finding_frame(found, trace.pictures[shown - 1], found.belief, np.ones(len(found.types), bool), 0)
    draw.text((MARGIN, HEADER / 2), f"all episodes together: {found.episodes}", INK, _font(17), "lm")
    return gif([*frames, frame], 2 * REST), still(frame)


def _finding_frame(
    found: Finding, picture: np.ndarray, belief: np.ndarray, met: np.ndarray, reward: float
) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    board, types, kinds = enlarged(picture), found.types[:MOST_TYPES], len(found.names)
    height = max(board.height, 24 * len(types) + 48)
    frame, draw = _canvas(board.width + PANEL + 4 * MARGIN, height + HEADER + MARGIN)
    _board(frame, draw, board, reward)
    left, right = board.width + 3 * MARGIN, frame.width - MARGIN
    row = (height - 48) / max(1, len(types))
    side = int(min(36, row - 4))
    if not len(types):
        draw.text((left, HEADER + height // 2), "nothing looks new", FAINT, _font(14), "lm")
    for i, tile in enumerate(types):
        y = int(HEADER + row * (i + 0.5))
        if not met[i]:
            draw.text((left + side + 10, y), "not met yet", FAINT, _font(14), "lm")
            continue
        _tile(frame, tile, left, y - side // 2, side)
        _stack(draw, belief[i], (left + side + 10, y - side // 3, right - side - 10, y + side // 3))
        if belief[i].max() > 0.5:
            _tile(frame, found.source[belief[i].argmax()], right - side, y - side // 2, side)
        else:
            draw.text((right - side / 2, y), "?", FAINT, _font(17), "mm")
    for c in range(kinds):  # which colour is which prototype
        room = (right - left) // kinds
        x, y, side = left + c * (right - left) // kinds, HEADER + height - 24, min(22, max(2, room - 10))
        draw.rectangle((x, y, x + min(6, max(1, room - 2)), y + 21), colour(c))
        if room >= 14:
            _tile(frame, found.source[c], x + 9, y, side)
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
    """A picture whose rim lights up when the step before gave a reward."""
    rim = GOOD if reward > 0 else BAD if reward < 0 else EDGE
    draw.rectangle((MARGIN - 4, HEADER - 4, MARGIN + board.width + 3, HEADER + board.height + 3), rim)
    frame.paste(board, (MARGIN, HEADER))


def _stack(draw: ImageDraw.ImageDraw, belief: np.ndarray, box: tuple[int, int, int, int]) -> None:
    """Probabilities [K] as one bar."""
    left, top, right, bottom = box
    ends = left + np.round(np.cumsum(belief) / max(belief.sum(), 1e-9) * (right - left)).astype(int)
    for c, (start, end) in enumerate(zip([left, *ends[:-1]], ends, strict=True)):
        if end > start:
            draw.rectangle((int(start), top, int(end) - 1, bottom), colour(c))


def _tile(frame: Image.Image, tile: np.ndarray, x: int, y: int, side: int) -> None:
    frame.paste(Image.fromarray(tile).resize((side, side), _way(tile, side)), (int(x), int(y)))


def enlarged(picture: np.ndarray, most: int = BOARD) -> Image.Image:
    """By a whole number, so that pixels stay square and sharp; a picture that is too large is made smaller."""
    scale, longer = most // max(picture.shape[:2]), max(picture.shape[:2])
    if scale:
        return Image.fromarray(picture.repeat(scale, 0).repeat(scale, 1))
    height, width = (max(1, round(n * most / longer)) for n in picture.shape[:2])
    return Image.fromarray(picture).resize((width, height), Image.Resampling.BOX)


def _way(tile: np.ndarray, side: int) -> Image.Resampling:
    return Image.Resampling.NEAREST if side >= max(tile.shape[:2]) else Image.Resampling.BOX


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """The font that comes with matplotlib: the same everywhere, and it has all arrows."""
    import matplotlib

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size)
