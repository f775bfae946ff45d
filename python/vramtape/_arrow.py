"""Rows of an answer as an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow


def to_arrow(rows: Iterable[Mapping[str, Any]]) -> pyarrow.Table:
    """A table of rows that have the same keys: ``compare(run)["rows"]``, ``waste(run)["series"]``, replays of runs.

    What is a dict in a row is a struct; ``table.flatten()`` makes columns of it. Needs pyarrow, the extra ``arrow``.
    """
    try:
        import pyarrow
    except ImportError:
        raise ImportError("to_arrow needs pyarrow: install it, or vramtape with its extra `arrow`") from None
    table = pyarrow.Table.from_pylist([dict(row) for row in rows])
    for at, field in enumerate(table.schema):
        # No row has a capacity, say: the column still has the type that another run's table has.
        if pyarrow.types.is_null(field.type) and field.name.endswith("_bytes"):
            table = table.set_column(at, field.name, table.column(at).cast(pyarrow.int64()))
    return table
