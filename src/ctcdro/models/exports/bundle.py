"""Joins modules of this package to one file that does not import the package.

A folder for `transformers` has to contain the code of its model. It is assembled from the modules that train the model,
so that every equation stays in one place.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType


def bundle(modules: Sequence[ModuleType], siblings: Sequence[ModuleType] = ()) -> str:
    """The code of the modules, in this order, after all of their imports, with the docstring of the last.

    Imports from other modules in the list are dropped. Constants from other modules of the package are written out.

    Args:
        modules: modules, each after those that it imports.
        siblings: modules that will be files in the same folder, and stay imported.

    Raises:
        ValueError: if a module needs another one, or two modules define the same name.
    """
    made = _Bundle(modules, siblings)
    for module in modules:
        made.add(module)
    return made.code()


class _Bundle:
    def __init__(self, modules: Sequence[ModuleType], siblings: Sequence[ModuleType]) -> None:
        self.modules = modules
        self.siblings = siblings
        self.imports: set[str] = set()
        self.constants: dict[str, str] = {}
        self.definitions: list[str] = []
        self.home: dict[str, str] = {}  # module that defines a name

    def add(self, module: ModuleType) -> None:
        source = inspect.getsource(module)
        tree = ast.parse(source)
        body = tree.body[1:] if ast.get_docstring(tree) else tree.body
        imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in imports:
            self._add_import(node, module)
        for inner in ast.walk(tree):
            if isinstance(inner, ast.ImportFrom) and inner.level and inner not in imports:
                raise ValueError(f"{module.__name__}, line {inner.lineno}: move this import to the top of the module.")
        for name in _defined_names(body):
            if self.home.setdefault(name, module.__name__) != module.__name__:
                raise ValueError(f"{module.__name__} and {self.home[name]} both define {name}.")
        end = max((node.end_lineno or 0 for node in imports), default=0)
        self.definitions.append("\n".join(source.splitlines()[end:]).strip("\n"))

    def code(self) -> str:
        docstring = f'"""{inspect.getdoc(self.modules[-1])}"""'
        imports = "\n".join(["from __future__ import annotations\n", *sorted(self.imports, key=_import_order)])
        constants = "\n".join(f"{name} = {value}" for name, value in sorted(self.constants.items()))
        parts = [f"{docstring}\n\n{imports}", constants, *self.definitions]
        return "\n\n\n".join(part for part in parts if part) + "\n"

    def _add_import(self, node: ast.Import | ast.ImportFrom, module: ModuleType) -> None:
        if isinstance(node, ast.Import) or not node.level:
            if ast.unparse(node) != "from __future__ import annotations":
                self.imports.add(ast.unparse(node))
            return
        names = [alias.name for alias in node.names]
        source = sys.modules[importlib.util.resolve_name("." * node.level + (node.module or ""), module.__package__)]
        if source in self.siblings:
            self.imports.add(f"from .{source.__name__.rpartition('.')[2]} import {', '.join(names)}")
        elif source not in self.modules:
            for name in names:
                value = getattr(source, name)
                if not isinstance(value, int | float | str):
                    raise ValueError(f"{module.__name__} imports {name} from {source.__name__}: add that to the list.")
                self.constants[name] = repr(value)


def _defined_names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    yield inner.id


def _import_order(line: str) -> tuple[int, str]:
    """Standard library, other packages, siblings."""
    package = line.split()[1].partition(".")[0]
    return 2 if not package else int(package not in sys.stdlib_module_names), line
