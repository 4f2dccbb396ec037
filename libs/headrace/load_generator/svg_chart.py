"""Charts as inline SVG: no script, no fonts, nothing from elsewhere."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 560, 240
WIDE = 1120
"""Width of a chart that has a row of the page to itself."""
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 36
COLORS = ("#2563eb", "#d97706", "#059669", "#be185d")
Points = Sequence[tuple[float, float]]


def line_chart(series: Mapping[str, Points], x_label: str, y_label: str) -> str:
    """Draws lines through points, each in its own color, from (0, 0) to the largest values."""
    max_x = max((x for points in series.values() for x, _ in points), default=0) or 1.0
    max_y = max((y for points in series.values() for _, y in points), default=0) or 1.0
    parts = [_axes(max_x, max_y, x_label, y_label)]
    for number, (name, points) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        places = " ".join(f"{_x(x, max_x):.1f},{_y(y, max_y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        row = TOP + 12 + 14 * number
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{row}" text-anchor="end" fill="{color}">{escape(name)}</text>')
    return _svg(HEIGHT, f"{y_label} by {x_label}", parts)


def timeline(rows: Sequence[tuple[float, Sequence[float], float]], seconds: float) -> str:
    """Draws one row per request: a thin line from its start to its end, and a tick for each event with tokens. Times
    are in seconds."""
    step = max(3, min(14, 900 // max(1, len(rows))))
    height = TOP + BOTTOM + step * len(rows)
    most = seconds or 1.0
    parts = []
    for number, (start, times, end) in enumerate(rows):
        y = TOP + step * number + step / 2
        line = f'x1="{_x(start, most, WIDE):.1f}" x2="{_x(end, most, WIDE):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {line} stroke="currentColor" stroke-opacity="0.35"/>')
        ticks = "".join(f"M{_x(time, most, WIDE):.1f} {y - step / 2 + 0.5:.1f}v{step - 1}" for time in times)
        parts.append(f'<path d="{ticks}" stroke="{COLORS[0]}" stroke-width="0.6"/>')
    for tick in range(5):
        x = _x(most * tick / 4, most, WIDE)
        parts.append(f'<text x="{x:.1f}" y="{height - 18}" text-anchor="middle">{_number(most * tick / 4)}</text>')
    parts.append(f'<text x="{WIDE / 2}" y="{height - 4}" text-anchor="middle">seconds</text>')
    return _svg(height, "events of each request by time", parts, WIDE)


def _axes(max_x: float, max_y: float, x_label: str, y_label: str) -> str:
    parts = []
    for tick in range(5):
        x, y = _x(max_x * tick / 4, max_x), _y(max_y * tick / 4, max_y)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            f'stroke-opacity="0.15"/><text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f'{_number(max_y * tick / 4)}</text><text x="{x:.1f}" y="{HEIGHT - 18}" text-anchor="middle">'
            f"{_number(max_x * tick / 4)}</text>"
        )
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text x="12" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 12 {HEIGHT / 2})">'
        f"{escape(y_label)}</text>"
    )
    return "".join(parts)


def _svg(height: float, title: str, parts: Sequence[str], width: int = WIDTH) -> str:
    body = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">{body}</svg>'
    )


def _x(value: float, most: float, width: int = WIDTH) -> float:
    return LEFT + (width - LEFT - RIGHT) * value / most


def _y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
