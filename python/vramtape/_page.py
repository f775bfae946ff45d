"""A page of ``view`` that notebooks display."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

# A page in a notebook is saved with it: a larger one is better opened from its file.
EMBEDDED_BYTES_MAX = 32 << 20
HEIGHT_PX = 860


class Page(dict[str, Any]):
    """What ``vramtape view --json`` prints: ``output``, ``page_bytes``, ``devices`` and ``records``.

    As the last expression of a notebook's cell it is shown as the page, in a frame that can reach neither the network
    nor the notebook. A page of more than 32 MiB is shown as the path of its file.
    """

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self["output"])

    def _repr_html_(self) -> str:
        path = html.escape(str(self.path))
        if self["page_bytes"] > EMBEDDED_BYTES_MAX:
            return f"<p>{self['page_bytes'] >> 20} MiB are too much for a notebook: open <code>{path}</code></p>"
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError as error:
            return f"<p>cannot read <code>{path}</code> ({html.escape(str(error))}): call vramtape.view again</p>"
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(text)}" title="vramtape: {path}" '
            f'style="width: 100%; height: {HEIGHT_PX}px; border: 0"></iframe>'
        )
