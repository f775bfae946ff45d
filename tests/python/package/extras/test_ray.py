"""The example that maps the lab over a fleet with Ray: its numbers are the command's."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from check import ROOT, TAPES, printed, run_cases, without_times

EXAMPLE = ROOT / "examples" / "ray_fleet.py"


def fleet(*arguments):
    """Runs the example with a Ray of its own, which keeps its files in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        environment = {**os.environ, "RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled"}
        environment.pop("RAY_ADDRESS", None)
        line = [sys.executable, str(EXAMPLE), *map(str, arguments)]
        return subprocess.run(line, env=environment, timeout=300, capture_output=True, text=True)


def test_a_fleets_answers_are_the_commands():
    for flags in ([], ["--config", "expandable_segments:True"]):
        done = fleet(TAPES, "--json", *flags)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        tapes = sorted(TAPES.glob("*.vtape"))
        assert list(answer["ranks"]) == [tape.name for tape in tapes]
        for tape in tapes:
            assert without_times(answer["ranks"][tape.name]) == printed("replay", tape, *flags), tape
        # The command's own question about all ranks has the row too.
        rows = printed("compare", TAPES)["rows"]
        config = flags[1] if flags else None
        (row,) = [row for row in rows if (row["is_recorded"] if config is None else row["config"] == config)]
        assert answer["peak_reserved"] == row["peak_reserved"], row
        ranks = printed("compare", TAPES)["ranks"]
        assert answer["worst"] == ranks[row["worst"]["rank"]]["name"]


def test_a_broken_tape_is_named():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "broken.vtape").write_bytes(b"no tape")
        done = fleet(folder)
        assert done.returncode == 1 and "error: broken.vtape: " in done.stderr, done.stderr
        empty = fleet(Path(folder) / "nowhere")
        assert empty.returncode == 1 and "no .vtape in" in empty.stderr, empty.stderr


if __name__ == "__main__":
    run_cases("__main__")
