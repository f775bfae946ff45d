"""``python -m vramtape``: the ``vramtape`` command."""

from ._command import main

main()
