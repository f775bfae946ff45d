"""However a program ends, its tape is finished, or says what is missing and how to get it; and nothing else is left."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from harness import COMMAND, LAB_LIBRARY, LIBRARY, ROOT, SIMCUDA, clean_environment, run_cases

SCRATCH = tempfile.TemporaryDirectory()
PROGRAM = os.path.join(ROOT, "tests", "python", "launch", "end.py")
ENVIRONMENT = {
    "PYTHONPATH": os.path.join(ROOT, "python"),
    "VRAMTAPE_LIBRARY": LIBRARY,
    "VRAMTAPE_SIMCUDA": SIMCUDA,
    "TMPDIR": SCRATCH.name,
}
LIMIT_SECONDS = 300
# Tests that were started by nohup ignore it, and so would their programs.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(folder, how, *flags, **settings):
    """`vramtape run` of the program, with a tape `run.vtape` and rings in the folder."""
    rings = os.path.join(folder, "rings")
    os.makedirs(rings, exist_ok=True)
    line = [sys.executable, "-m", "vramtape", "run", "--route", "pluggable", "-o", "run.vtape", *flags, PROGRAM, how]
    return subprocess.Popen(
        line,
        cwd=folder,
        env=clean_environment(**{**ENVIRONMENT, "VRAMTAPE_RINGS": rings, **settings}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, how, *flags, code=0, **settings):
    """Its standard error, after it ended so."""
    program = start(folder, how, *flags, **settings)
    out, error = program.communicate(timeout=LIMIT_SECONDS)
    assert program.returncode == code, f"{how} ended with {program.returncode}:\n{out}{error}"
    return error


def command(folder, *arguments):
    environment = {**os.environ, "VRAMTAPE_RINGS": os.path.join(folder, "rings")}
    done = subprocess.run([COMMAND, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stdout}"
    return done.stdout


def info(folder, tape="run.vtape"):
    return json.loads(command(folder, "info", "--json", tape))


def rings(folder):
    return os.listdir(os.path.join(folder, "rings"))


def has_end(folder, kind, detail, allocs=7):
    said = info(folder)
    end = said["meta"]["end"]
    assert (said["end"], end["kind"], end["detail"]) == ("complete", kind, detail), end
    assert [device["events"]["alloc"] for device in said["devices"]] == [allocs], said["devices"]
    assert abs(end["time_ns"] / 1e9 - time.time()) < LIMIT_SECONDS and not rings(folder)


def the_tape_says_how_the_program_ended(folder):
    run(folder, "")
    has_end(folder, "exit", "")
    run_anew(folder, "raise", code=1)
    has_end(folder, "exception", "ValueError: the first line")
    run_anew(folder, "memory", code=1)
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4194304.00 GiB."
    has_end(folder, "out_of_memory", words)


def run_anew(folder, how, **options):
    """The same where the last one's tape is gone."""
    if os.path.exists(os.path.join(folder, "run.vtape")):
        os.remove(os.path.join(folder, "run.vtape"))
    return run(folder, how, **options)


def a_signal_finishes_the_tape_and_ends_the_program(folder):
    for name in ("SIGTERM", "SIGHUP"):
        error = run_anew(folder, name, code=-getattr(signal, name))
        has_end(folder, "signal", name)
        assert error.splitlines() == [f"vramtape: {name}: the tape is {folder}/run.vtape"], error


def a_signal_in_a_long_call_too(folder):
    """Python's handlers run between bytecodes, and would wait for the end of the call."""
    program = start(folder, "in-call", "-q")
    program.stdout.readline()
    time.sleep(0.3)
    sent = time.monotonic()
    program.send_signal(signal.SIGTERM)
    assert program.wait(timeout=30) == -signal.SIGTERM and time.monotonic() - sent < 15
    program.communicate()
    has_end(folder, "signal", "SIGTERM")


def a_programs_own_handler_stays(folder):
    run(folder, "handler", code=3)
    has_end(folder, "exit", "")
    run_anew(folder, "ignores")
    has_end(folder, "exit", "")


def a_forked_child_ends_by_the_signal_and_its_parent_goes_on(folder):
    run(folder, "child")
    has_end(folder, "exit", "", allocs=8)


def without_a_tape_the_ring_stays_and_a_line_says_so(folder):
    os.mkdir(os.path.join(folder, "rings"))
    flags = ("--route", "pluggable", "--conf", "record:ring")
    line = [sys.executable, "-m", "vramtape", "run", *flags, PROGRAM, "SIGTERM"]
    environment = clean_environment(**{**ENVIRONMENT, "VRAMTAPE_RINGS": os.path.join(folder, "rings")})
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == -signal.SIGTERM, done.stderr
    pid = done.stdout.strip()
    assert f"`vramtape recover {pid} -o run.vtape`" in done.stderr and f"-{pid}-" in "".join(rings(folder)), done.stderr
    command(folder, "recover", pid, "-o", "saved.vtape")
    saved = info(folder, "saved.vtape")
    assert saved["devices"][0]["events"]["alloc"] == 7, saved
    end = saved["meta"]["end"]
    assert (end["kind"], end["detail"]) == ("signal", "SIGTERM"), "the ring that stays names the end"
    assert saved["meta"]["command"][-1] == "SIGTERM", "the ring names its program too"


def info_of_a_killed_run_names_the_recovery(folder):
    run(folder, "SIGKILL", code=-signal.SIGKILL)
    line = info(folder)["recover"]
    assert line in command(folder, "info", "run.vtape")
    assert re.fullmatch(r"vramtape recover \d+ --tape run.vtape -o run-whole.vtape", line), line
    command(folder, *shlex.split(line)[1:])
    whole = info(folder, "run-whole.vtape")
    assert whole["devices"][0]["events"]["alloc"] == 7 and whole["meta"]["end"]["kind"] == "killed", whole
    os.remove(os.path.join(folder, "rings", rings(folder)[0]))
    assert info(folder)["recover"] is None, "the ring is gone"


def nothing_is_left_in_the_temporary_folder(folder):
    temporary = os.path.join(folder, "temporary")
    os.mkdir(temporary)
    ends = (("", 0), ("SIGTERM", -signal.SIGTERM), ("SIGKILL", -signal.SIGKILL), ("exit", 4), ("exec", 0))
    for how, code in ends:
        run_anew(folder, how, code=code, TMPDIR=temporary)
        assert os.listdir(temporary) == [], how


def a_full_disk_ends_the_tape_and_nothing_else(folder):
    error = run(folder, "small-disk")
    ended, line, last = error.splitlines()
    assert ended.startswith(f"vramtape: {folder}/run.vtape ends here: File too large. The program goes on"), ended
    assert re.fullmatch(r"vramtape: the tape is run.vtape \(ended early, at 20.* UTC: File too large\)", line), line
    lost = int(re.fullmatch(rf"vramtape: {folder}/run.vtape ended early, at .*; (\d+) records .*", last).group(1))
    said = info(folder)
    end = said["meta"]["end"]
    assert (said["end"], end["kind"], end["detail"]) == ("complete", "tape_failed", "File too large"), end
    assert said["devices"][0]["lost"] == lost
    # 41007 allocations and the frees of the last 41000, and a few segments.
    recorded = lost + said["devices"][0]["records"]
    assert 0 <= recorded - 82007 < 100 + 1000, recorded


def the_line_names_both_parts_of_a_limited_tape(folder):
    error = run(folder, "part")
    assert error == "vramtape: the tape is run.vtape (its older part is run.vtape.1, which is read with it)\n", error


def info_names_the_program_and_where_it_ran(folder):
    run(folder, "", RANK="3")
    text = command(folder, "info", "run.vtape")
    rows = dict(line.split(None, 1) for line in text.splitlines()[:14] if " " in line.strip())
    import torch

    assert rows["torch"] == torch.__version__ and rows["CUDA"] == torch.version.cuda, text
    assert rows["command"].endswith("launch/end.py ''") and rows["rank"] == "3" and rows["driver"] == "simulated", text
    assert rows["started"].endswith(" UTC") and "simulated GPU" in rows["GPU"] and rows["machine"], text
    os.remove(os.path.join(folder, "run.vtape"))
    run(folder, "", "--conf", "command:off")
    said = info(folder)["meta"]
    assert "command" not in said and said["torch_version"] == torch.__version__, said


def a_warning_is_a_sentence_with_the_way_out(folder):
    nowhere = os.path.join(folder, "nowhere")
    error = run(folder, "", "-q", VRAMTAPE_RINGS=nowhere)
    (line,) = error.splitlines()
    words = (f"vramtape: no ring in {nowhere}: No such file", "if this process is killed", "VRAMTAPE_RINGS")
    assert all(word in line for word in words) and "recorder::" not in line and "error=" not in line, line


def daemon_threads_that_want_the_interpreter_do_not_abort_its_end(folder):
    """CPython up to 3.13 ends a thread that asks for its lock then by `pthread_exit`, which Rust must not catch.

    A longer run, of other Pythons too: VRAMTAPE_END_PROCESSES=1000 VRAMTAPE_END_PYTHONS=python3.9:python3.13.
    """
    count = int(os.environ.get("VRAMTAPE_END_PROCESSES", "60"))
    pythons = os.environ.get("VRAMTAPE_END_PYTHONS", sys.executable).split(os.pathsep)
    program = os.path.join(ROOT, "tests", "python", "ffi", "daemons.py")
    environment = clean_environment(VRAMTAPE_RINGS=folder)

    def end(number):
        kind = ("stacks", "stacks", "observer", "callback")[number // len(pythons) % 4]
        wait_s = number % 20 * 50e-6
        line = [pythons[number % len(pythons)], program, LIBRARY, kind, str(wait_s)]
        done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return None if done.returncode == 0 else (line, done.returncode, done.stdout.decode())

    with ThreadPoolExecutor(2) as pool:
        failed = [one for one in pool.map(end, range(count)) if one is not None]
    assert not failed, f"{len(failed)} of {count} processes failed, the first: {failed[0]}"
    return f"{count} processes"


# Sets the title of a terminal, clears it, and turns the direction of writing.
HOSTILE = "a\x1b]0;title\x07\x1b[2J\x9b2J\u202eb"


def no_control_character_of_a_name_reaches_the_terminal(folder):
    """Names of files and settings in the output of the launcher, the library and Python's warnings."""
    hostile = os.path.join(folder, HOSTILE)
    os.mkdir(hostile)
    tape = os.path.join(hostile, "run.vtape")
    launcher = [sys.executable, "-m", "vramtape"]
    run = [*launcher, "run", "--route", "pluggable"]
    lab = [sys.executable, "-c", f"import vramtape; vramtape.replay({tape + 'x'!r})"]
    with open(tape, "wb"):
        pass
    conf = {"VRAMTAPE_CONF": f'route:pluggable,tape:"{tape}"'}
    loud = {"VRAMTAPE_LOG": "debug", "VRAMTAPE_RINGS": hostile + "x", "RANK": HOSTILE}
    for what, line, settings, words in (
        ("the tape's other name and the log", [*run, "-o", tape, PROGRAM, ""], loud, "the tape goes to"),
        ("a signal", [*run, "-f", "-o", tape, PROGRAM, "SIGTERM"], {}, "SIGTERM: the tape is"),
        ("a full disk", [*run, "-f", "-o", tape, PROGRAM, "small-disk"], {}, "ends here"),
        ("no such program", [*run, os.path.join(hostile, "none.py")], {}, "none.py"),
        ("no such option", [*run, f"--{HOSTILE}", PROGRAM], {}, "error: "),
        ("no such setting", [*run, "--conf", f"{HOSTILE}:1", PROGRAM, ""], {}, "title"),
        ("no such folder", [*run, "-o", os.path.join(hostile, "no", "x.vtape"), PROGRAM, ""], {}, "title"),
        ("doctor", [*launcher, "doctor", "--json"], conf, "title"),
        ("an error of the lab", lab, {}, "title"),
    ):
        environment = clean_environment(
            **{**ENVIRONMENT, "VRAMTAPE_RINGS": folder, "VRAMTAPE_LAB_LIBRARY": LAB_LIBRARY, **settings}
        )
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True)
        for text in (done.stdout.decode(), done.stderr.decode()):
            raw = {one for one in text if one < " " or "\x7f" <= one < "\xa0" or one == "\u202e"} - {"\n", "\t"}
            assert not raw, f"{what}: {raw} in {text!r}"
        said = (done.stdout + done.stderr).decode()
        shown = ("\\u001b]0;title\\u0007", "\\u{1b}]0;title\\u{7}", "\\x1b]0;title\\x07")
        assert words in said and any(one in said for one in shown), f"{what}: {said}"
        if what == "doctor":
            assert json.loads(done.stdout)["settings"]["tape"] == tape, "JSON has the name as it is"


def in_a_folder(case):
    def within():
        with tempfile.TemporaryDirectory() as folder:
            return case(os.path.realpath(folder))

    return within


CASES = (
    the_tape_says_how_the_program_ended,
    a_signal_finishes_the_tape_and_ends_the_program,
    a_signal_in_a_long_call_too,
    a_programs_own_handler_stays,
    a_forked_child_ends_by_the_signal_and_its_parent_goes_on,
    without_a_tape_the_ring_stays_and_a_line_says_so,
    info_of_a_killed_run_names_the_recovery,
    nothing_is_left_in_the_temporary_folder,
    a_full_disk_ends_the_tape_and_nothing_else,
    the_line_names_both_parts_of_a_limited_tape,
    info_names_the_program_and_where_it_ran,
    a_warning_is_a_sentence_with_the_way_out,
    daemon_threads_that_want_the_interpreter_do_not_abort_its_end,
    no_control_character_of_a_name_reaches_the_terminal,
)
chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
run_cases([(f"end.{case.__name__}", in_a_folder(case)) for case in chosen])
