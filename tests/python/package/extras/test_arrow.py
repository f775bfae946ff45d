"""Rows of answers as Arrow tables: every number arrives, and tables of different runs fit together."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import pyarrow
import pyarrow.parquet
from check import ONE_SHOT, OUT_OF_MEMORY, run_cases

import vramtape


def test_a_table_has_every_number_of_the_rows():
    for rows in (
        vramtape.compare(ONE_SHOT)["rows"],
        vramtape.waste(ONE_SHOT)["series"],
        vramtape.fit(ONE_SHOT, gpu="l40s")["rows"],
        vramtape.info(ONE_SHOT)["devices"],
    ):
        table = vramtape.to_arrow(rows)
        assert table.to_pylist() == rows
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.parquet"
            pyarrow.parquet.write_table(table, file)
            assert pyarrow.parquet.read_table(file).to_pylist() == rows


def test_structs_are_columns_once_flattened():
    rows = vramtape.fit(ONE_SHOT, gpu="l40s")["rows"]
    flat = vramtape.to_arrow(rows).flatten()
    assert flat["on_device.num_ooms"].to_pylist() == [row["on_device"]["num_ooms"] for row in rows]


def test_tables_of_different_runs_fit_together():
    unlimited = vramtape.to_arrow([vramtape.replay(ONE_SHOT, capacity="unlimited")])
    limited = vramtape.to_arrow([vramtape.replay(OUT_OF_MEMORY)])
    assert unlimited.schema.field("capacity_bytes").type == pyarrow.int64()
    both = pyarrow.concat_tables([unlimited.drop(["inferred"]), limited.drop(["inferred"])])
    assert both.num_rows == 2 and both["peak_reserved_bytes"].type == pyarrow.int64()


def test_no_rows_are_an_empty_table():
    assert vramtape.to_arrow([]).num_rows == 0


if __name__ == "__main__":
    run_cases("__main__")
