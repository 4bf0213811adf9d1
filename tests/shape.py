"""Sizes of functions and files and the weight of the tests, against the bar this project set itself.

`python -m tests.shape` prints the figures and exits 1 when one falls short.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CLONE = Path(__file__).resolve().parents[1]
NOT_OURS = {"migrations", "bench", "node_modules", "build"}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value with its bar; `least` turns the bar from an upper into a lower one."""

    name: str
    value: float
    bar: float
    least: bool = False

    @property
    def is_short(self) -> bool:
        """True when the bar is missed."""
        return self.value < self.bar if self.least else self.value > self.bar

    def __str__(self) -> str:
        sign = "≥" if self.least else "≤"
        return f"{'SHORT' if self.is_short else '   ok'}  {self.name:<38}{self.value:8.2f}  (bar {sign} {self.bar:g})"


def sources(root: Path) -> list[Path]:
    """Our Python files relative to `root`, without hidden folders, migrations and benchmarks."""
    found = (path.relative_to(root) for path in root.rglob("*.py"))
    return sorted(p for p in found if not any(part in NOT_OURS or part.startswith(".") for part in p.parts))


def code_lines(text: str) -> int:
    """Lines that are neither blank nor a comment."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())


def functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and length of every function, from its `def` to its last line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def percentile(values: Iterable[int], share: float) -> int:
    """The value below which `share` of the values lie; 0 when there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


def measure(product: dict[Path, str], tests: dict[Path, str]) -> list[Figure]:
    """All figures, from the texts of the files."""
    lengths = [length for text in product.values() for _, length in functions(text)] or [0]
    checks = [n for text in tests.values() for name, n in functions(text) if name.startswith("test_")] or [0]
    sizes = [code_lines(text) for text in product.values()]
    weight = sum(map(code_lines, tests.values())) / max(1, sum(sizes))
    return [
        Figure("function lines, median", median(lengths), 9),
        Figure("function lines, 95 %", percentile(lengths, 0.95), 45),
        Figure("functions over 50 lines, %", 100 * sum(n > 50 for n in lengths) / len(lengths), 4),
        Figure("file lines, 95 %", percentile(sizes, 0.95), 300),
        Figure("file lines, largest", max(sizes, default=0), 600),
        Figure("test lines per product line", weight, 1.3, least=True),
        Figure("test function lines, median", median(checks), 12),
    ]


def main(root: Path = CLONE) -> int:
    """Exit code: 1 when a figure falls short."""
    texts = {path: (root / path).read_text(encoding="utf-8") for path in sources(root)}
    tests = {path: text for path, text in texts.items() if path.parts[0] == "tests"}
    figures = measure({p: t for p, t in texts.items() if p not in tests}, tests)
    print("\n".join(map(str, figures)))
    return int(any(figure.is_short for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
