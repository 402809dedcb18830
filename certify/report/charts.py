"""Inline SVG, drawn with integers so that the same certificate gives the same bytes everywhere."""

from markupsafe import Markup, escape

from certify.records import Bound, Figure
from certify.report.shown import plain_bound, plain_value
from certify.visible import visible

_LEFT, _RIGHT, _HEIGHT = 8, 312, 34


def strip(figure: Figure, bound: Bound) -> Markup:
    """A figure with its interval on a line beside its bound; its text equivalent is the label.

    The scale runs over everything that is drawn, with an eighth of it as margin on both sides.
    """
    decimals = max(figure.decimals, bound.decimals)

    def common(scaled: int, own: int) -> int:
        return scaled * int(10 ** (decimals - own))

    value, limit = common(figure.scaled, figure.decimals), common(bound.scaled, bound.decimals)
    low = value if figure.low_scaled is None else common(figure.low_scaled, figure.decimals)
    high = value if figure.high_scaled is None else common(figure.high_scaled, figure.decimals)
    least, most = min(low, value, limit), max(high, value, limit)
    span = max(most - least, 1)
    start, whole = 8 * least - span, 10 * span

    def x(at: int) -> int:
        return _LEFT + (8 * at - start) * (_RIGHT - _LEFT) // whole

    edge = _RIGHT if bound.kind == "floor" else _LEFT
    allowed, width = min(x(limit), edge), abs(edge - x(limit))
    size = f'viewBox="0 0 320 {_HEIGHT}" width="320" height="{_HEIGHT}"'
    label = escape(visible(f"{figure.name}: {plain_value(figure)}; required {plain_bound(bound)}", 300))
    return Markup(  # noqa: S704 - integers and an escaped label
        f'<svg class="strip" role="img" aria-label="{label}" {size}>'
        f'<rect class="allowed" x="{allowed}" y="7" width="{width}" height="20"/>'
        f'<line class="axis" x1="{_LEFT}" y1="17" x2="{_RIGHT}" y2="17"/>'
        f'<line class="limit" x1="{x(limit)}" y1="3" x2="{x(limit)}" y2="31"/>'
        f'<line class="whisker" x1="{x(low)}" y1="17" x2="{x(high)}" y2="17"/>'
        f'<circle class="dot" cx="{x(value)}" cy="17" r="5"/></svg>'
    )


def rosette(*, sealed: bool) -> Markup:
    """The emblem of the first screen: petals where a seal is, a dashed ring where none is."""
    if not sealed:
        return Markup(
            '<svg class="rosette" aria-hidden="true" viewBox="0 0 120 120" width="120" height="120">'
            '<circle class="ring open" cx="60" cy="60" r="54"/><circle class="ring open" cx="60" cy="60" r="40"/></svg>'
        )
    petals = "".join(
        f'<ellipse cx="60" cy="60" rx="54" ry="19" transform="rotate({turn} 60 60)"/>' for turn in range(0, 180, 12)
    )
    return Markup(  # noqa: S704 - constants
        '<svg class="rosette" aria-hidden="true" viewBox="0 0 120 120" width="120" height="120">'
        f'<g class="petals">{petals}</g><circle class="ring" cx="60" cy="60" r="57"/>'
        '<circle class="heart" cx="60" cy="60" r="21"/><path class="tick" d="M51 61l6 6 12-14"/></svg>'
    )
