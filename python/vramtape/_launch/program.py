"""How a program is started: as it is where the system can, else by the Python that runs this."""

from __future__ import annotations

import os
import shutil

# The first bytes of a file that identify its kind.
_ELF = b"\x7fELF"
_SHEBANG = b"#!"
# As long a first line as Linux reads.
_SHEBANG_MAX_BYTES = 256
_PYTHON_SUFFIXES = (".py", ".pyw", ".pyz")


def command_line(words: list[str], python: list[str]) -> list[str]:
    """Returns the command to execute for a program and its arguments; ``python`` is this Python with its flags.

    :raises ValueError: where there is no such program, or it cannot be started; the text says what to do
    """
    name, rest = words[0], words[1:]
    if name == "-" or os.path.isfile(os.path.join(name, "__main__.py")):
        return [*python, name, *rest]
    if os.path.isfile(name):
        return [*_file(name, python), *rest]
    command = shutil.which(name) if os.sep not in name else None
    if command is None:
        raise ValueError(f"{name}: no such script here, and no command of that name")
    return [command, *rest]


def _file(name: str, python: list[str]) -> list[str]:
    path = name if os.sep in name else os.path.join(os.curdir, name)
    is_executable = os.access(name, os.X_OK)
    if is_executable and not os.access(name, os.R_OK):
        return [path]
    with open(name, "rb") as file:
        first = file.read(_SHEBANG_MAX_BYTES)
    if first.startswith(_ELF):
        if not is_executable:
            raise ValueError(f"{name} is a program, but not executable: run `chmod +x {name}`")
        return [path]
    interpreter = _interpreter(first)
    if not interpreter:
        is_shell = name.endswith(".sh")  # As a shell starts what has no first line.
        return ["/bin/sh", path] if is_shell else [*python, name]
    if _is_any_python(interpreter) and (name.endswith(_PYTHON_SUFFIXES) or not is_executable):
        return [*python, name]
    return [path] if is_executable else [*interpreter, path]


def _interpreter(first: bytes) -> list[str]:
    """The words of a first line such as ``#!/bin/bash -e``: a program and, as Linux has it, one argument at most."""
    if not first.startswith(_SHEBANG):
        return []
    line = first[len(_SHEBANG) :].split(b"\n", 1)[0]
    return [os.fsdecode(word) for word in line.strip().split(None, 1)]


def _is_any_python(interpreter: list[str]) -> bool:
    """Whether it is ``#!/usr/bin/env python3``, which leaves open which Python, so that this one serves."""
    return os.path.basename(interpreter[0]) == "env" and interpreter[1:] in (["python"], ["python3"])
