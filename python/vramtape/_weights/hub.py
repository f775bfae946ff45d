"""Downloads of weights from a model hub that end after the header, which has the sizes.

Such a file is hollow (``hollow``), so it is kept apart from the cache of the hub, in the folder of the dry run. Files
that the cache has, and files of other kinds, are as without a dry run. Functions of huggingface_hub that another
version does not have are left alone: then the weights are downloaded.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from .._rebind import replace
from . import hollow, notes
from .after_import import after_import

_SUFFIX = ".safetensors"
_REPLACED = (
    "_hf_hub_download_to_cache_dir",
    "_download_to_tmp_and_move",
    "try_to_load_from_cache",
    "http_get",
    "is_xet_available",
)
# In a thread that downloads a file of weights.
_downloading = threading.local()


def begin(folder: Path) -> None:
    """Keeps hollow files in ``folder``."""

    def change_files(module: ModuleType) -> None:
        if all(hasattr(module, name) for name in _REPLACED):
            _change(module, folder)

    def change_snapshots(module: ModuleType) -> None:
        replace({module.snapshot_download: _snapshot(module.snapshot_download, folder)})

    after_import("huggingface_hub.file_download", change_files)
    after_import("huggingface_hub._snapshot_download", change_snapshots)


def _change(module: Any, folder: Path) -> None:
    download, move, find, get, is_xet_available = (getattr(module, name) for name in _REPLACED)

    def to_cache(*, cache_dir: str, filename: str, **named: Any) -> Any:
        key = {"revision": named["revision"], "repo_type": named["repo_type"]}
        is_cached = find(named["repo_id"], filename, cache_dir=cache_dir, **key)
        if not filename.endswith(_SUFFIX) or is_cached or named.get("dry_run"):
            return download(cache_dir=cache_dir, filename=filename, **named)
        _downloading.name = f"{named['repo_id']}/{filename}"
        try:
            return download(cache_dir=str(folder), filename=filename, **named)
        finally:
            del _downloading.name

    def found(repo_id: str, filename: str, cache_dir: Any = None, *key: Any, **named: Any) -> Any:
        cached = find(repo_id, filename, cache_dir, *key, **named)
        if cached is not None or not filename.endswith(_SUFFIX):
            return cached
        return find(repo_id, filename, str(folder), *key, **named)

    # The xet protocol has no beginning of a file. Its files are shared between caches, unless it is unavailable.
    def is_available() -> bool:
        return not hasattr(_downloading, "name") and is_xet_available()

    def by_http(*arguments: Any, **named: Any) -> None:
        if hasattr(_downloading, "name"):
            named["xet_file_data"] = None
        move(*arguments, **named)

    def header(url: str, temp_file: Any, **named: Any) -> None:
        if hasattr(_downloading, "name"):
            _get_header(functools.partial(get, url), temp_file, _downloading.name, named)
        else:
            get(url, temp_file, **named)

    replace(dict(zip((download, move, find, get, is_xet_available), (to_cache, by_http, found, header, is_available))))


class _HeaderEnds(BaseException):
    """Ends a download."""


class _Header:
    """A file that a download writes to, until it has the header."""

    def __init__(self) -> None:
        self.data = b""
        self.end_bytes: Optional[int] = None

    def write(self, data: bytes) -> int:
        self.data += data
        if self.end_bytes is None:
            self.end_bytes = hollow.header_end_bytes(self.data)
        if self.end_bytes is not None and len(self.data) >= self.end_bytes:
            raise _HeaderEnds
        return len(data)

    def tell(self) -> int:
        return len(self.data)


def _get_header(get: Callable[..., None], file: Any, name: str, named: dict[str, Any]) -> None:
    expected_bytes = named.pop("expected_size", None)
    header = _Header()
    try:
        get(header, **named)
    except _HeaderEnds:
        pass
    if header.end_bytes is None:
        raise ValueError(f"{name} ends in its header")
    data_bytes = hollow.data_bytes(header.data)
    if expected_bytes not in (None, header.end_bytes + data_bytes):
        raise ValueError(f"{name} has {expected_bytes} bytes, and its header has {header.end_bytes + data_bytes}")
    file.write(header.data[: header.end_bytes])
    file.truncate(header.end_bytes + data_bytes)
    notes.note(name, "header", data_bytes)


def _snapshot(download: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """The folder of a snapshot has hollow files beside those of the cache, if there are some of this snapshot."""

    def snapshot(*arguments: Any, **named: Any) -> Any:
        found = download(*arguments, **named)
        if not isinstance(found, str):
            return found
        cached = Path(found)
        # models--OWNER--NAME/snapshots/COMMIT
        joined = folder.joinpath(*cached.parts[-3:])
        if not joined.is_dir():
            return found
        for file in cached.rglob("*"):
            link = joined / file.relative_to(cached)
            if not file.is_dir() and not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file.resolve())
        return str(joined)

    return snapshot
