"""The lab from Python: its answers are the command's, its errors are exceptions, and the caller can stop it."""

import functools
import gzip
import html
import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from check import (
    LONG,
    ONE_SHOT,
    OUT_OF_MEMORY,
    ROOT,
    TAPES,
    faults,
    large_run,
    printed,
    raised,
    run_cases,
    without_times,
)

import vramtape

VERBS = ["replay", "compare", "waste", "explain", "fit", "tune", "info", "leaks"]


def test_the_package_is_the_installed_one():
    assert ROOT / "python" not in Path(vramtape.__file__).resolve().parents, vramtape.__file__
    assert "VRAMTAPE_LAB_LIBRARY" not in os.environ


def test_every_verb_returns_what_the_command_prints():
    for run in (ONE_SHOT, OUT_OF_MEMORY, ROOT / "tests/data/snapshots/2.9-expandable.pickle"):
        for verb in VERBS:
            answer = getattr(vramtape, verb)(run)
            assert without_times(answer) == printed(verb, run), (verb, run)


def test_arguments_are_the_flags_of_the_command():
    setting = "max_split_size_mb:64"
    cases = [
        (vramtape.replay(ONE_SHOT, "expandable"), "replay", "--strategy=expandable"),
        (vramtape.replay(ONE_SHOT, config="", capacity=20 << 30), "replay", "--config=", "--capacity=20GiB"),
        (vramtape.replay(ONE_SHOT, capacity="20GB"), "replay", "--capacity=20GiB"),
        (vramtape.replay(ONE_SHOT, edit="scale:0.5"), "replay", "--edit=scale:0.5"),
        (vramtape.compare(ONE_SHOT, edit=["scale:0.5"]), "compare", "--edit=scale:0.5"),
        (vramtape.waste(ONE_SHOT, edit="scale:0.5"), "waste", "--edit=scale:0.5"),
        (vramtape.fit(ONE_SHOT, edit="scale:0.5", checks=2), "fit", "--edit=scale:0.5", "--checks=2"),
        (vramtape.tune(ONE_SHOT, edit="scale:0.5", lines=5), "tune", "--edit=scale:0.5", "--lines=5"),
        (
            vramtape.replay(ONE_SHOT, capacity="unlimited", compat="2.11", device=0),
            "replay",
            "--capacity=unlimited",
            "--compat=2.11",
            "--device=0",
        ),
        (vramtape.compare(ONE_SHOT, config=setting), "compare", f"--config={setting}"),
        (
            vramtape.compare(ONE_SHOT, ["rmm-pool", "bfc"], [setting, ""]),
            "compare",
            f"--config={setting}",
            "--config=",
            "--strategy=rmm-pool",
            "--strategy=bfc",
        ),
        (vramtape.waste(ONE_SHOT, points=3, empty_cache=False), "waste", "--points=3", "--no-empty-cache"),
        (vramtape.explain(ONE_SHOT, at="peak", config=setting), "explain", "--at=peak", f"--config={setting}"),
        (vramtape.explain(ONE_SHOT, "expandable", at=7), "explain", "--strategy=expandable", "--at=7"),
        (vramtape.fit(ONE_SHOT, gpu="l40s", checks=2), "fit", "--gpu=l40s", "--checks=2"),
        (vramtape.fit(ONE_SHOT, cold=True), "fit", "--cold"),
        (vramtape.leaks(ONE_SHOT, step="epoch", capacity="20GB"), "leaks", "--step=epoch", "--capacity=20GiB"),
        (vramtape.tune([ONE_SHOT, str(ONE_SHOT)], lines=20), "tune", "--lines=20", ONE_SHOT),
        (vramtape.compare([TAPES, str(ONE_SHOT)], keep_going=True), "compare", "--keep-going", TAPES),
        (vramtape.waste(tape for tape in [ONE_SHOT, ONE_SHOT]), "waste", ONE_SHOT),
    ]
    for answer, *line in cases:
        assert without_times(answer) == printed(*line, ONE_SHOT), line


def test_every_verb_that_writes_or_compares_is_a_function():
    snapshot = ROOT / "tests/data/snapshots/2.9-expandable.pickle"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        half = folder / "half.vtape"
        assert vramtape.edit(ONE_SHOT, "scale:0.5", half)["output"] == str(half)
        assert "exists" in raised(vramtape.Error, lambda: vramtape.edit(ONE_SHOT, ["scale:0.5"], half))
        vramtape.edit(ONE_SHOT, ["scale:0.5"], half, force=True)
        plan = folder / "run.vplan"
        (planned,) = vramtape.plan(ONE_SHOT, plan, time=0.5)["runs"]
        assert planned["planned"]["peak_reserved_bytes"] <= planned["stitch"]["peak_reserved_bytes"], planned
        assert plan.read_text().startswith("vramtape plan 1\n")
        assert "exists" in raised(vramtape.Error, lambda: vramtape.plan(ONE_SHOT, plan))
        packed = vramtape.pack(ONE_SHOT, folder / "packed.csv", capacity="1TiB", time=0.5)
        assert packed["fits"] and packed["height_bytes"] >= packed["bound_bytes"] > 0, packed
        assert (
            vramtape.verify(ONE_SHOT, against=ONE_SHOT)["same"] and not vramtape.verify(half, against=ONE_SHOT)["same"]
        )
        summary = folder / "summary.md"
        grown = vramtape.diff(half, ONE_SHOT, fail_on="peak:+2%", markdown=summary)
        assert not grown["within"] and "peak:+2% is exceeded" in summary.read_text()
        assert vramtape.diff(ONE_SHOT, ONE_SHOT, fail_on="peak:0,reserved:0")["within"]
        assert "`size:1`" in raised(vramtape.Error, lambda: vramtape.diff(ONE_SHOT, half, fail_on="size:1"))
        page = folder / "run.html"
        assert vramtape.view([ONE_SHOT, half], page)["devices"] == 2
        assert "exists" in raised(vramtape.Error, lambda: vramtape.view(ONE_SHOT, page))
        assert vramtape.view(ONE_SHOT, page, force=True)["page_bytes"] == page.stat().st_size
        shown_by_notebooks()
        tape = folder / "run.vtape"
        assert vramtape.import_run(snapshot, tape)["devices"] == 1
        assert vramtape.info(folder)["runs"][0]["name"] == "half.vtape"
        pickled = folder / "run.pickle"
        vramtape.export(ONE_SHOT, pickled)
        assert faults(pickled) == []
        tables = vramtape.export(ONE_SHOT, folder / "tables", table="records", format="arrow", edit="scale:0.5")
        assert Path(tables["tables"][0]["file"]).name == "records.arrow", tables
        assert vramtape.verify(snapshot)["same"] and vramtape.verify(ONE_SHOT)["devices"]
        message = "XPU out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 2.00 GiB"
        (folder / "oom.txt").write_text(message)
        assert vramtape.explain(message=folder / "oom.txt")["messages"][0]["verdict"] == "huge-request"
        assert "not both" in raised(vramtape.Error, lambda: vramtape.explain(ONE_SHOT, message=folder / "oom.txt"))
        assert "name RUN" in raised(vramtape.Error, vramtape.explain)
        page = folder / "explained.html"
        assert vramtape.explain(ONE_SHOT, html=page)["moment"]["kind"] == "peak" and page.stat().st_size > 100_000
        assert "use -f" in raised(vramtape.Error, lambda: vramtape.explain(ONE_SHOT, html=page))
        vramtape.explain(ONE_SHOT, html=page, force=True)
        report = vramtape.report(ONE_SHOT, folder / "report.txt")
        assert (folder / "report.txt").read_text() == report["report"] and report["figures"], report
        (folder / "rings").mkdir()
        assert vramtape.recover(rings=folder / "rings") == {"rings": []}
        assert "neither a process" in raised(vramtape.Error, lambda: vramtape.recover("nowhere", folder / "o.vtape"))


def shown_by_notebooks():
    page = vramtape.view(ONE_SHOT)
    path, text = page.path, page.path.read_text(encoding="utf-8")
    shown = page._repr_html_()
    attributes = dict(re.findall(r'(\w+)="([^"]*)"', shown))
    # Without same-origin: the page can read nothing of the notebook.
    assert attributes["sandbox"] == "allow-scripts"
    assert shown.startswith("<iframe ") and shown.count("<") == 2, shown[:99]
    assert html.unescape(attributes["srcdoc"]) == text
    page["page_bytes"] = 33 << 20
    assert "33 MiB" in page._repr_html_() and str(path) in page._repr_html_()
    del page
    assert not path.parent.exists(), "a temporary page goes with its object"


def test_a_file_that_holds_more_than_its_size_lets_expect_is_read_where_it_is_trusted():
    packed = gzip.compress(b'{"segments": [], "device_traces": []' + b" " * (100 << 20) + b"}")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run.json.gz"
        run.write_bytes(packed)
        for verb in (vramtape.info, vramtape.verify):
            assert "--trust-factor" in raised(vramtape.Error, functools.partial(verb, run)), verb
            assert verb(run, trust_factor=4), verb
    for verb in (vramtape.replay, vramtape.compare, vramtape.waste, vramtape.fit, vramtape.tune, vramtape.verify):
        assert verb(ONE_SHOT, trust_factor=2), verb


def test_a_profile_where_vramtape_is_not_active_says_so():
    script = "import vramtape\nwith vramtape.profile() as p: pass\np.memory_stats"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "vramtape is not active in this process: call vramtape.install()" in child.stderr, child.stderr


def test_a_run_may_be_a_text_bytes_or_a_path_of_any_characters():
    expected = printed("info", ONE_SHOT)
    with tempfile.TemporaryDirectory() as folder:
        for name in (b"-", "--config=\u00fc \U0001f40d.vtape".encode(), b"\xff.vtape"):
            run = os.path.join(os.fsencode(folder), name)
            Path(os.fsdecode(run)).write_bytes(ONE_SHOT.read_bytes())
            for one in (run, os.fsdecode(run), Path(os.fsdecode(run))):
                assert vramtape.info(one) == expected, one
        before = os.getcwd()
        os.chdir(folder)
        try:
            assert vramtape.info("-") == expected
        finally:
            os.chdir(before)


def test_errors_have_the_text_of_the_library():
    nowhere = raised(vramtape.Error, lambda: vramtape.replay("nowhere.vtape"))
    assert nowhere.startswith("cannot read nowhere.vtape: No such file"), nowhere
    assert "no run" in raised(vramtape.Error, lambda: vramtape.replay(__file__))
    assert "known: native" in raised(vramtape.Error, lambda: vramtape.replay(ONE_SHOT, "best"))
    assert "must be >= 20" in raised(vramtape.Error, lambda: vramtape.compare(ONE_SHOT, config="max_split_size_mb:1"))
    assert "only [0]" in raised(vramtape.Error, lambda: vramtape.waste(ONE_SHOT, device=3))
    assert "h1000" in raised(vramtape.Error, lambda: vramtape.fit(ONE_SHOT, gpu="h1000"))
    assert "write 80GiB" in raised(vramtape.Error, lambda: vramtape.fit(ONE_SHOT, capacity="80"))
    assert "RUN" in raised(vramtape.Error, lambda: vramtape.tune([]))
    assert "no run" in raised(vramtape.Error, lambda: vramtape.compare(Path(__file__).parent))
    assert "threads=0" in raised(ValueError, lambda: vramtape.replay(ONE_SHOT, threads=0))
    assert "null byte" in raised(ValueError, lambda: vramtape.replay("a\0b"))
    assert issubclass(vramtape.Error, RuntimeError)


def test_a_torn_tape_is_answered_with_a_warning():
    with tempfile.TemporaryDirectory() as folder:
        torn = Path(folder) / "torn.vtape"
        torn.write_bytes(ONE_SHOT.read_bytes()[:-40])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            vramtape.replay(torn)
        texts = [str(warning.message) for warning in caught]
        assert len(texts) == 1 and texts[0].startswith(f"{torn}: "), texts
        assert caught[0].filename == __file__, caught[0].filename


def test_progress_goes_to_the_end():
    calls = []
    vramtape.compare(ONE_SHOT, progress=lambda done, total: calls.append((done, total)))
    assert calls and calls[-1][0] == calls[-1][1] > 0, calls
    assert calls == sorted(calls)
    vramtape.compare(ONE_SHOT, progress=True)  # No terminal: nothing to show, and nothing to fail.


def test_an_exception_in_progress_ends_the_work_and_comes_out():
    def progress(done, total):
        raise KeyError("mine")

    with tempfile.TemporaryDirectory() as folder:
        run = large_run(folder)
        begun = time.monotonic()
        assert raised(KeyError, lambda: vramtape.fit(run, **LONG, progress=progress)) == "'mine'"
        while working_threads():
            assert time.monotonic() - begun < 60, "the work goes on"
            time.sleep(0.01)
    vramtape.replay(ONE_SHOT)


def test_ctrl_c_ends_the_work_at_once():
    with tempfile.TemporaryDirectory() as folder:
        # A background process ignores Ctrl-C, and so do its children.
        start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        script = f"import vramtape; print('ask', flush=True); vramtape.fit({str(large_run(folder))!r}, **{LONG!r})"
        child = subprocess.Popen([sys.executable, "-c", start + script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        child.stdout.readline()
        time.sleep(1)
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        try:
            errors = child.communicate(timeout=60)[1].decode()
        finally:
            child.kill()
        assert "KeyboardInterrupt" in errors and child.returncode != 0, errors
        took_s = time.monotonic() - begun
        print(f"    {took_s:.2f} s from Ctrl-C to the end of the process")


def test_threads_ask_at_once_while_pythons_lock_is_free():
    with tempfile.TemporaryDirectory() as folder:
        run, counted, stop = large_run(folder, buffers=10_000), [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)

        def compare(_):
            before = counted[0]
            return without_times(vramtape.compare(run)), counted[0] - before

        counter = threading.Thread(target=count)
        counter.start()
        deadline_s = time.monotonic() + 60
        try:
            # Under a held lock the counter moves in the Python code around a call only: six steps at most in a
            # minute of calls. A busy machine may give the counter little time in one call, so the calls are repeated
            # until one sees enough.
            advance = 0
            while advance < 20:
                assert time.monotonic() < deadline_s, f"the counter stood still: {advance} steps in a call"
                with ThreadPoolExecutor(2) as pool:
                    (first, first_advance), (second, second_advance) = pool.map(compare, range(2))
                assert first == second
                advance = max(advance, first_advance, second_advance)
        finally:
            stop.set()
            counter.join()


def test_processes_of_every_kind_ask():
    asked = [*sorted(TAPES.glob("*.vtape")), TAPES]
    expected = [without_times(vramtape.compare(runs)) for runs in asked]
    for kind in ("spawn", "fork", "forkserver"):  # A child of fork has none of its parent's threads.
        with ProcessPoolExecutor(2, mp_context=get_context(kind)) as pool:
            answers = pool.map(vramtape.compare, asked)
            assert [without_times(answer) for answer in answers] == expected, kind


def test_functions_and_errors_are_pickled():
    for verb in VERBS:
        function = getattr(vramtape, verb)
        assert pickle.loads(pickle.dumps(function)) is function
    error = pickle.loads(pickle.dumps(vramtape.Error("why")))
    assert type(error) is vramtape.Error and str(error) == "why"


def test_functions_are_typed_and_documented():
    for verb in VERBS:
        function = getattr(vramtape, verb)
        parameters = inspect.signature(function).parameters.values()
        assert all(parameter.annotation is not parameter.empty for parameter in parameters), verb
        assert function.__doc__ and function.__annotations__["return"] == "dict[str, Any]", verb
    assert (Path(vramtape.__file__).parent / "py.typed").exists()


def test_no_thread_stays():
    vramtape.compare(ONE_SHOT)
    begun = time.monotonic()
    while working_threads():
        assert time.monotonic() - begun < 60
        time.sleep(0.01)


def test_the_command_is_installed():
    command = Path(sys.executable).with_name("vramtape")
    for line in ([str(command)], [sys.executable, "-m", "vramtape"]):
        shown = subprocess.run([*line, "info", str(ONE_SHOT), "--json"], check=True, stdout=subprocess.PIPE, text=True)
        assert shown.stdout.startswith("{\n"), shown.stdout
        missing = subprocess.run([*line, "info", "nowhere"], stderr=subprocess.PIPE, text=True)
        assert missing.returncode == 2 and missing.stderr.startswith("error: cannot read nowhere"), missing
        piped = f"{' '.join(line)} info {ONE_SHOT} --json | head -n 1"
        assert subprocess.run(["bash", "-c", f"set -o pipefail; {piped}"], stdout=subprocess.PIPE).returncode == 0


def working_threads():
    """The lab's threads in this process."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            pass  # It has just ended.
    return [name for name in names if name == "vramtape lab"]


if __name__ == "__main__":
    run_cases("__main__")
