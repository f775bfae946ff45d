"""Waits for the first import of torch, and has vramtape installed then.

`python -m vramtape run` puts this folder on PYTHONPATH, for a program and its children, whichever Python each may be:
so this is written in words that every Python 3 knows, imports nothing that was not imported before, and makes way for
the sitecustomize that would have been there without it.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(HERE))


class OnTorch:
    """Finds torch where the other finders find it, and has it attached to once it is there."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                if spec.origin and hasattr(spec.loader, "exec_module"):  # Else a folder of that name.
                    self.watch(spec.loader)
                return spec
        return None

    def watch(self, loader):
        """Keeps the loader's type, which other code may check, and changes this one instance."""
        execute = loader.exec_module

        def exec_module(module):
            attach = package("vramtape._launch.attach")
            attach.before_torch()
            execute(module)
            del loader.exec_module
            if self in sys.meta_path:  # Kept where the import failed: it may be tried again.
                sys.meta_path.remove(self)
            attach.after_torch()

        loader.exec_module = exec_module


def package(name):
    """A module of the vramtape that started this, which the Python here need not have installed."""
    import importlib
    import importlib.util

    if "vramtape" not in sys.modules:
        start = os.path.join(PACKAGE, "__init__.py")
        spec = importlib.util.spec_from_file_location("vramtape", start, submodule_search_locations=[PACKAGE])
        sys.modules["vramtape"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["vramtape"])
    return importlib.import_module(name)


def begin():
    """The first Python of a run says at its end where the tapes are; the others note theirs in its list."""
    import atexit

    pid, here = os.getpid(), os.getcwd()
    first = os.environ.get("VRAMTAPE_RUN_FIRST")
    if first and first != str(pid):  # The same where it has become another program since.
        return
    # Not imported at the end: when an import evaluates text, CPython forgets that it is to end by SIGINT.
    tapes = package("vramtape._launch.tapes")
    os.environ["VRAMTAPE_RUN_FIRST"] = str(pid)
    tapes.begin()
    atexit.register(tapes.end, pid, here)


if "VRAMTAPE_RUN" in os.environ and sys.version_info >= (3, 9):
    sys.meta_path.insert(0, OnTorch())
    try:
        begin()
    except OSError:  # The folder is gone or there is no memory: then nothing is printed at the end.
        pass

# The sitecustomize behind this one, if there is one. What it raises is its own affair.
sys.path[:] = [folder for folder in sys.path if folder != HERE]
this = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401  Imported to be run.
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = this
