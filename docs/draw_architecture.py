"""Draws the folders of the package in layers, from their imports, into docs/assets/architecture.svg.

    python docs/draw_architecture.py

A folder is drawn above all folders that it imports. An arrow leads to each of them, unless a path of other arrows
already does. The text in a box is the first sentence of the docstring of the folder. Nothing here names a folder, so
the drawing follows the code when files move.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from html import escape
from itertools import pairwise
from pathlib import Path
from statistics import fmean

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "src" / "ctcdro"
DRAWING = DOCS / "assets" / "architecture.svg"

BOX_WIDTH, BOX_HEIGHT, LANE_WIDTH, GAP, ROW_HEIGHT, MARGIN = 220, 88, 10, 18, 126, 12
CHARACTERS_PER_LINE = 34

Graph = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    """All modules of the package, such as `speech/audio`."""
    return {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, also inside functions."""
    folder = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "ctcdro"):
            base = folder[: len(folder) + 1 - node.level] if node.level else ()
            parts = [*base, *(node.module or "").removeprefix("ctcdro").strip(".").split(".")]
            module = "/".join(part for part in parts if part)
            is_module = (PACKAGE / f"{module}.py").exists()
            yield from [module] if is_module else [f"{module}/{alias.name}".lstrip("/") for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name[7:].replace(".", "/") for alias in node.names if alias.name.startswith("ctcdro."))


def folder_of(module: str) -> str:
    return module.partition("/")[0]


def folder_graph() -> dict[str, set[str]]:
    """The folders that each folder imports."""
    graph: dict[str, set[str]] = {folder_of(module): set() for module in modules() if "/" in module}
    for module, path in modules().items():
        if "/" in module:
            folder = folder_of(module)
            graph[folder] |= {folder_of(name) for name in imports(path)} & set(graph) - {folder}
    return graph


def reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    remaining = list(graph[start])
    while remaining:
        if (folder := remaining.pop()) not in found:
            found.add(folder)
            remaining += graph[folder]
    return found


def reduced(graph: Graph) -> dict[str, set[str]]:
    """The graph without arrows that a longer path replaces.

    Example:
        >>> reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()})
        {'a': {'b'}, 'b': {'c'}, 'c': set()}
    """
    return {
        folder: {name for name in below if not any(name in reachable(graph, other) for other in below)}
        for folder, below in graph.items()
    }


def levels(graph: Graph) -> dict[str, int]:
    """The layer of each folder: 0 for one that imports no other.

    Example:
        >>> levels({"a": {"b", "c"}, "b": {"c"}, "c": set()})
        {'c': 0, 'b': 1, 'a': 2}
    """
    found: dict[str, int] = {}
    for folder in TopologicalSorter(graph).static_order():  # raises CycleError
        found[folder] = 1 + max((found[below] for below in graph[folder]), default=-1)
    return found


def routes(graph: Graph, level: Mapping[str, int]) -> list[list[str]]:
    """Each arrow as a list of nodes, one per layer: its folders, and a separate lane in the layers between them."""
    return [
        [folder, *(f"{folder}>{below}:{layer}" for layer in range(level[folder] - 1, level[below], -1)), below]
        for folder in sorted(graph)
        for below in sorted(graph[folder])
    ]


def rows_in_order(paths: list[list[str]], level: Mapping[str, int]) -> list[list[str]]:
    """The nodes of each layer from left to right, each near the mean position of its neighbors."""
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    neighbors: dict[str, list[str]] = {folder: [] for folder in level}
    layer_of = dict(level)
    for path in paths:
        for upper, lower in pairwise(path):
            neighbors.setdefault(upper, []).append(lower)
            neighbors.setdefault(lower, []).append(upper)
        layer_of |= {node: level[path[0]] - number for number, node in enumerate(path)}
    for node in sorted(layer_of):
        rows[layer_of[node]].append(node)
    for _ in range(24):
        for row in [*rows, *reversed(rows)]:
            position = {node: x for other in rows for node, x in positions(other).items()}
            row.sort(key=lambda node: fmean([position[other] for other in neighbors[node]] or [position[node]]))
    return rows


def node_width(node: str) -> int:
    return LANE_WIDTH if ">" in node else BOX_WIDTH


def positions(row: list[str]) -> dict[str, float]:
    """The center of each node of a row that is itself centered at 0."""
    x = -(sum(map(node_width, row)) + GAP * (len(row) - 1)) / 2
    found = {}
    for node in row:
        found[node] = x + node_width(node) / 2
        x += node_width(node) + GAP
    return found


def description(folder: str) -> list[str]:
    """The first sentence of the docstring of a folder, in lines."""
    text = ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return textwrap.wrap(" ".join(text.partition("\n\n")[0].split()).rstrip("."), CHARACTERS_PER_LINE)[:4]


def draw() -> str:
    """The drawing, as SVG."""
    graph = folder_graph()
    level = levels(graph)
    paths = routes(reduced(graph), level)
    rows = rows_in_order(paths, level)
    width = max(max(positions(row).values()) + node_width(row[-1]) / 2 for row in rows) * 2 + 2 * MARGIN
    height = ROW_HEIGHT * len(rows) - (ROW_HEIGHT - BOX_HEIGHT) + 2 * MARGIN
    center = {
        node: (width / 2 + x, height - MARGIN - BOX_HEIGHT / 2 - ROW_HEIGHT * layer)
        for layer, row in enumerate(rows)
        for node, x in positions(row).items()
    }
    arrows = [_arrow([center[node] for node in path]) for path in paths]
    boxes = [_box(folder, *center[folder]) for folder in sorted(level)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="Folders of ctcdro and their imports">',
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0L8 4L0 8z" fill="#6b7d88"/></marker></defs>',
            '<rect width="100%" height="100%" rx="8" fill="#ffffff"/>',
            *arrows,
            *boxes,
            "</svg>\n",
        ]
    )


def _arrow(points: list[tuple[float, float]]) -> str:
    """A smooth line through the lanes, from the lower edge of a box to the upper edge of another."""
    (x, y), *between, (last_x, last_y) = points
    stops = [(x, y + BOX_HEIGHT / 2)]
    for lane_x, lane_y in between:
        stops += [(lane_x, lane_y - BOX_HEIGHT / 2), (lane_x, lane_y + BOX_HEIGHT / 2)]
    stops.append((last_x, last_y - BOX_HEIGHT / 2 - 1))
    line = f"M{stops[0][0]:.1f} {stops[0][1]:.1f}"
    for (from_x, from_y), (to_x, to_y) in pairwise(stops):
        bend = (to_y - from_y) / 2
        line += f"C{from_x:.1f} {from_y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
    return f'<path d="{line}" fill="none" stroke="#6b7d88" stroke-width="1.3" marker-end="url(#head)"/>'


def _box(folder: str, x: float, y: float) -> str:
    left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
    lines = "".join(
        f'<text x="{left + 10:.1f}" y="{top + 38 + 14 * row:.1f}" font-size="12" fill="#37474f">{escape(line)}</text>'
        for row, line in enumerate(description(folder))
    )
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="#eceff1" '
        f'stroke="#546e7a"/><text x="{left + 10:.1f}" y="{top + 20:.1f}" font-size="15" font-weight="bold" '
        f'fill="#102027">{folder}/</text>{lines}'
    )


if __name__ == "__main__":
    DRAWING.write_text(draw(), encoding="utf-8")
    print(f"Drawing: {DRAWING}")
