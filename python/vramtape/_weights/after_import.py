"""Calls a function after the first import of a module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional


def after_import(name: str, call: Callable[[ModuleType], None]) -> None:
    """Calls ``call`` with the module ``name`` when it is imported; at once where it is."""
    if name in sys.modules:
        call(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder:
    """Finds one module where the other finders find it."""

    def __init__(self, name: str, call: Callable[[ModuleType], None]) -> None:
        self._name, self._call = name, call

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[Any]:
        if name != self._name:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: Any) -> None:
        """Changes this one loader, whose type other code may check."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            del loader.exec_module
            if self in sys.meta_path:  # Kept where the import fails: it may be repeated.
                sys.meta_path.remove(self)
            self._call(module)

        loader.exec_module = exec_module
