"""The queries of docs/export.md in DuckDB, pandas and Polars, as they stand there, beside what the command says."""

import json
import os
import pathlib
import re
import subprocess

import duckdb
import pandas
import polars
import pyarrow.feather
import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMMAND = os.environ["VRAMTAPE_COMMAND"]
DATA = ROOT / "tests/data"
TABLES = ["records", "allocations", "stacks", "frames", "series"]
# Runs with what each is here for; the folder is called `run`, as in the document.
RUNS = {
    "gpt2": DATA / "traces/gpt2_train-default.pickle.zst",  # stacks
    "streams": DATA / "tapes/one-shot-side-stream.vtape",
    "graphs": DATA / "traces/cudagraph_pools-default.pickle.zst",  # private pools
    "middle": DATA / "snapshots/2.15-pools.pickle",  # blocks from before the first record
}
CONFIG = "expandable_segments:True"


def vramtape(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments)], text=True, capture_output=True)
    assert done.returncode == 0, f"vramtape {arguments}: {done.stderr}"
    return json.loads(done.stdout)


def queries():
    """The document's code, by language and order: SQL, pandas, Polars."""
    document = (ROOT / "docs/export.md").read_text()
    found = re.findall(r"```(sql|python)\n(.*?)```", document, re.DOTALL)
    assert [language for language, _ in found] == ["sql", "python", "python"], found
    return [code for _, code in found]


def answer_of(code):
    names = {}
    exec(compile(code, "docs/export.md", "exec"), names)
    return names["answer"]


def check_stacks_at_the_peak(code, info):
    device = max(info["devices"], key=lambda device: device["peak_allocated_bytes"])
    top = duckdb.sql(code).fetchall()
    whole = duckdb.sql(code.replace("LIMIT 10", "")).fetchall()
    assert top == whole[:10] or [row[2] for row in top] == [row[2] for row in whole[:10]], top
    assert sum(row[2] for row in whole) == device["peak_allocated_bytes"], (whole, device)
    return top


def check_streams(code, info):
    answer = answer_of(code)
    assert answer["count"].sum() == sum(device["events"].get("alloc", 0) for device in info["devices"])
    other = "SELECT stream, sum(requested_bytes) FROM 'run/allocations.parquet' WHERE alloc_record >= 0 GROUP BY stream"
    assert dict(duckdb.sql(other).fetchall()) == answer["sum"].to_dict()
    return answer


def check_series(code, compared):
    answer = answer_of(code)
    rows = [row for row in compared["rows"] if row["strategy"] in ("native", "expandable")]
    recorded = compared["rows"][compared["recorded_row"]]
    for config in {recorded["config"], CONFIG}:
        row = next(row for row in rows if row["config"] == config)
        assert answer[config].max() == row["peak_reserved_bytes"], (config, row)
    assert answer["after_records"].is_sorted()
    return answer


def check_formats_agree():
    """Parquet and Arrow hold the same, as three readers see them."""
    for table in TABLES:
        parquet = pyarrow.parquet.read_table(f"run/{table}.parquet")
        arrow = pyarrow.feather.read_table(f"run-arrow/{table}.arrow")
        assert parquet.equals(arrow), table
        assert polars.read_ipc(f"run-arrow/{table}.arrow").shape == parquet.shape
        assert pandas.read_feather(f"run-arrow/{table}.arrow").shape == parquet.shape
        assert duckdb.sql(f"SELECT count(*) FROM 'run/{table}.parquet'").fetchall() == [(parquet.num_rows,)]


def check_sums(info):
    """The recorded sums beside each record are those that `info` walks."""
    sums = "SELECT device, max(allocated_bytes), max(reserved_bytes), count(*) FROM 'run/records.parquet' GROUP BY 1"
    for device, allocated, reserved, count in duckdb.sql(sums).fetchall():
        said = next(said for said in info["devices"] if said["id"] == device)
        # Memory at the beginning of a run may be its peak.
        assert allocated <= said["peak_allocated_bytes"] and reserved <= said["peak_reserved_bytes"]
        assert count == said["records"], (count, said)


def main():
    sql, of_pandas, of_polars = queries()
    for name, run in RUNS.items():
        folder = pathlib.Path(name).resolve()
        folder.mkdir()
        os.chdir(folder)
        report = vramtape("export", run, "-o", "run", "--config", CONFIG, "--json")
        assert [table["table"] for table in report["tables"]] == TABLES
        vramtape("export", run, "-o", "run-arrow", "--config", CONFIG, "--format", "arrow", "--json")
        info = vramtape("info", run, "--json")
        top = check_stacks_at_the_peak(sql, info)
        assert name != "gpt2" or top[0][0], f"a stack with a site: {top}"
        print(f"PASS duckdb: stacks at the peak ({name})")
        streams = check_streams(of_pandas, info)
        assert name != "streams" or len(streams) > 1, streams
        print(f"PASS pandas: bytes of each stream ({name})")
        check_series(of_polars, vramtape("compare", run, "--config", CONFIG, "--json"))
        print(f"PASS polars: reserved over time ({name})")
        check_formats_agree()
        check_sums(info)
        print(f"PASS both formats hold the same ({name})")
        os.chdir(folder.parent)


main()
