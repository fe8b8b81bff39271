"""The drawing of a cluster: this broker, the others at its sides, and what crosses each link."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker_app.base.states import HERE
from broker_app.features.cluster.report import ClusterReport, LinkReport
from broker_app.web.console.base.badges import Badge, badge
from broker_app.web.console.forwarding.cluster_status import state_of

WIDTH, HEIGHT = 156, 44
_GAP_X, _GAP_Y, _MARGIN = 190, 16, 3
#: the end of a link, where its figures are
_STRAIGHT = 66
#: others that are drawn in one column, at the right
_MOST_OF_ONE_SIDE: Final = 4
#: a name that is longer is cut
_LETTERS: Final = 17


class Vertex(NamedTuple):
    """A broker; `x` and `y` are its upper left corner."""

    name: str
    short: str
    state: Badge
    detail: str
    x: int
    y: int
    is_here: bool


class Figure(NamedTuple):
    """Messages a second in one direction."""

    arrow: str
    rate: float
    x: int
    y: int


class Edge(NamedTuple):
    """A link, with its figures near the other broker."""

    path: str
    tone: str
    flows: bool
    is_up: bool
    anchor: str
    figures: list[Figure]


class Drawing(NamedTuple):
    """All of it, in a box of this size."""

    width: int
    height: int
    vertices: list[Vertex]
    edges: list[Edge]


def draw(report: ClusterReport) -> Drawing:
    """The drawing of the cluster as this broker sees it."""
    links = report.expected_links()
    on_right = len(links) if len(links) <= _MOST_OF_ONE_SIDE else (len(links) + 1) // 2
    rows = max(1, on_right)
    height = rows * (HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    own_x = _MARGIN if on_right == len(links) else _MARGIN + WIDTH + _GAP_X
    own_y = (height - HEIGHT) // 2
    here = Vertex(report.broker, _short(report.broker), badge(HERE), "", own_x, own_y, is_here=True)
    vertices, edges = [here], []
    for side, column in ((1, links[:on_right]), (-1, links[on_right:])):
        top = (height - len(column) * (HEIGHT + _GAP_Y) + _GAP_Y) // 2
        for row, link in enumerate(column):
            x, y = own_x + side * (WIDTH + _GAP_X), top + row * (HEIGHT + _GAP_Y)
            vertices.append(_vertex(link, x, y))
            edges.append(_edge(link, here, side, x, y + HEIGHT // 2))
    return Drawing(max(vertex.x for vertex in vertices) + WIDTH + _MARGIN, height, vertices, edges)


def _vertex(link: LinkReport, x: int, y: int) -> Vertex:
    state = state_of(link)
    detail = f"{link.round_trip_ms:.1f} ms" if link.round_trip_ms is not None else ""
    return Vertex(link.broker, _short(link.broker), state, detail, x, y, is_here=False)


def _edge(link: LinkReport, here: Vertex, side: int, x: int, y: int) -> Edge:
    own_x, own_y = here.x + (WIDTH if side > 0 else 0), here.y + HEIGHT // 2
    end_x = x if side > 0 else x + WIDTH
    bent_x = end_x - side * _STRAIGHT
    middle = (own_x + bent_x) // 2
    out, back = ("→", "←") if side > 0 else ("←", "→")
    at = end_x - side * 9
    is_up = link.state == "up"
    rates = ((out, link.sent_rate, y - 6), (back, link.received_rate, y + 15))
    figures = [Figure(arrow, rate, at, line) for arrow, rate, line in rates if is_up and rate >= 0.05]
    return Edge(
        f"M{own_x} {own_y}C{middle} {own_y} {middle} {y} {bent_x} {y}H{end_x}",
        state_of(link).tone,
        flows=bool(figures),
        is_up=is_up,
        anchor="end" if side > 0 else "start",
        figures=figures,
    )


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
