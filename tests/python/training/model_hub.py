"""A model hub with one model, on this machine: it serves what huggingface_hub requests, and counts the bytes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_PART_BYTES = 1 << 16


class Hub:
    """Serves the files of ``folder`` as the model ``name``."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        # Of files, by their names.
        self.sent_bytes: dict[str, int] = {}
        self.endpoint = ""


@contextmanager
def serve(name: str, folder: Path) -> Iterator[Hub]:
    """Serves a model until the end of the block."""
    hub = Hub(name, folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(is_whole=False)

        def do_GET(self) -> None:
            self._answer(is_whole=True)

        def _answer(self, is_whole: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            if path.startswith(f"/api/models/{name}"):
                self._send(json.dumps(_about(hub, path)).encode(), is_whole)
                return
            _, _, file = path.partition(f"/{name}/resolve/")
            found = folder / file.partition("/")[2]
            if file and found.is_file():
                self._send_file(found, is_whole)
            else:
                self._send(b"{}", is_whole, status=404, code="EntryNotFound")

        def _send(self, data: bytes, is_whole: bool, status: int = 200, code: str = "") -> None:
            self.send_response(status)
            self._headers(len(data), hashlib.sha1(data).hexdigest(), code)
            if is_whole:
                self.wfile.write(data)

        def _send_file(self, file: Path, is_whole: bool) -> None:
            size_bytes = file.stat().st_size
            self.send_response(200)
            self._headers(size_bytes, hashlib.sha1(file.name.encode()).hexdigest(), "")
            if not is_whole:
                return
            with file.open("rb") as data:
                try:
                    while part := data.read(_PART_BYTES):
                        self.wfile.write(part)
                        hub.sent_bytes[file.name] = hub.sent_bytes.get(file.name, 0) + len(part)
                except ConnectionError:
                    self.close_connection = True

        def _headers(self, size_bytes: int, etag: str, code: str) -> None:
            self.send_header("Content-Length", str(size_bytes))
            self.send_header("ETag", f'"{etag}"')
            self.send_header("X-Repo-Commit", _COMMIT)
            if code:
                self.send_header("X-Error-Code", code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _about(hub: Hub, path: str) -> object:
    files = [file for file in hub.folder.iterdir() if file.is_file()]
    if "/tree/" in path:
        return [{"type": "file", "path": file.name, "size": file.stat().st_size, "oid": "0"} for file in files]
    siblings = [{"rfilename": file.name} for file in files]
    return {"id": hub.name, "sha": _COMMIT, "siblings": siblings, "config": {"model_type": "any"}}
