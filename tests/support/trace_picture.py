"""Draws the spans of a trace as SVG, for the documentation."""

from collections.abc import Sequence
from html import escape

from opentelemetry.proto.trace.v1.trace_pb2 import Span

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 230, 80, 24, 34
_STYLE = """\
text { font: 13px sans-serif; fill: #1f2933 } .small { font-size: 11px; fill: #52606d }
.bar { fill: #4c7fb0 } .outer { fill: #b9c8d6 } .grid { stroke: #d9e2ec }
.back { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb } .small { fill: #9aa5b1 } .grid { stroke: #3e4c59 } .back { fill: #1f2933 }
  .outer { fill: #52606d } .bar { fill: #74a7d6 }
}"""


def trace_svg(spans: Sequence[Span], title: str) -> str:
    """Return a picture with one row for each span, below its parent."""
    rows = _in_order(spans)
    begin = min(span.start_time_unix_nano for span in spans)
    end = max(span.end_time_unix_nano for span in spans)
    scale = (WIDTH - LEFT - RIGHT) / max(end - begin, 1)
    parents = {span.parent_span_id for span in spans}
    height = TOP + ROW * len(rows) + 28
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>',
        f'<text x="12" y="20">{escape(title)}</text>',
    ]
    for part in range(5):
        x = LEFT + (WIDTH - LEFT - RIGHT) * part / 4
        seconds = (end - begin) / 1e9 * part / 4
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{height - 22}"/>')
        middle = f'x="{x}" y="{height - 8}" text-anchor="middle"'
        parts.append(f'<text class="small" {middle}>{seconds:.2f} s</text>')
    for number, (depth, span) in enumerate(rows):
        y = TOP + ROW * number
        x = LEFT + (span.start_time_unix_nano - begin) * scale
        width = max((span.end_time_unix_nano - span.start_time_unix_nano) * scale, 1.5)
        kind = "outer" if span.span_id in parents else "bar"
        ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
        parts += [
            f'<text x="{12 + 16 * depth}" y="{y + 16}">{escape(span.name)}</text>',
            f'<rect class="{kind}" x="{x:.1f}" y="{y + 5}" width="{width:.1f}" height="14"/>',
            f'<text class="small" x="{x + width + 5:.1f}" y="{y + 16}">{ms:,.0f} ms</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


def _in_order(spans: Sequence[Span]) -> list[tuple[int, Span]]:
    """Each span with its depth, parents before their children, in the order of their begin."""
    ids = {span.span_id for span in spans}

    def below(parent: bytes | None, depth: int) -> list[tuple[int, Span]]:
        found: list[tuple[int, Span]] = []
        for span in spans:
            above = span.parent_span_id if span.parent_span_id in ids else None
            if above == parent:
                found += [(depth, span), *below(span.span_id, depth + 1)]
        return found

    return below(None, 0)
