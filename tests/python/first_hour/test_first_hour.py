"""The first hour of a new user, as a sequence of chapters: each command that they try, its output and its exit code.

Run, record and observe a training; look at its tape; kill it, fill its disk, give it a small /dev/shm; ask whether it
fits, what to set and where its memory goes, for a run that is complete, one that ran out of memory, one that went on
after that, and one that was attached to in the middle. The output is to be read; each chapter is a test.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = os.path.join(HERE, "train.py")
LIMIT_SECONDS = 300
# Lines of a command's output that the session shows.
SHOWN_LINES = 24


class Session:
    """A user's folder, and what they type there."""

    def __init__(self, folder):
        self.folder = folder
        self.number = 0
        shutil.copy(TRAIN, folder)

    def environment(self, settings):
        """Nothing of the caller's that steers an allocator; the simulated driver's memory is as in the shop."""
        steering = ("VRAMTAPE_CONF", "VRAMTAPE_SIM_", "PYTORCH_", "CUDA_VISIBLE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
        return {**kept, "PYTHONUNBUFFERED": "1", **settings}

    def types(self, *line, code=0, within=None, last=None, **settings):
        """Runs a command line whose `vramtape` and `python` are the installed ones; its output, both streams.

        :param last: how many of its last lines the session shows, if not the first ones
        """
        shown = [f"{name}={value}" for name, value in settings.items()] + [shlex.quote(word) for word in line]
        print(f"$ {' '.join(shown)}", flush=True)
        done = subprocess.run(
            [*(within or []), *self.command(line)],
            cwd=self.folder,
            env=self.environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        show(done.stdout, last)
        wanted = code if isinstance(code, tuple) else (code,)
        assert done.returncode in wanted, f"`{' '.join(line)}` ended with {done.returncode}, not {code}"
        return done.stdout

    def command(self, line):
        """The command that a shell would run for it."""
        if line[0] == "vramtape":
            return [sys.executable, "-m", "vramtape", *line[1:]]
        return [sys.executable, *line[1:]] if line[0] == "python" else list(line)

    def starts(self, *line, **settings):
        """The same in the background."""
        print(f"$ {' '.join(line)} &", flush=True)
        return subprocess.Popen(
            self.command(line),
            cwd=self.folder,
            env=self.environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def json(self, *line, code=0):
        """The same answer for programs."""
        done = subprocess.run(
            self.command((*line, "--json")),
            cwd=self.folder,
            env=self.environment({}),
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert done.returncode == code, f"`{' '.join(line)} --json` ended with {done.returncode}, not {code}"
        return json.loads(done.stdout)

    def writes(self, name, text):
        """A script of the user's own."""
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        print(f"({name})")
        show(text)

    def has(self, name):
        return os.path.exists(os.path.join(self.folder, name))


def show(text, last=None):
    """Indented, and no more of it than a person would read."""
    lines = text.rstrip().splitlines()
    if last is not None:
        lines = ["...", *lines[-last:]]
    for line in lines[:SHOWN_LINES]:
        print(f"    {line[:160]}")
    if len(lines) > SHOWN_LINES:
        print(f"    ... {len(lines) - SHOWN_LINES} more lines")


def has(text, *words):
    """Asserts that each of these is in the text, whatever the case."""
    for word in words:
        assert word.lower() in text.lower(), f"no {word!r} in:\n{text}"


def has_not(text, *words):
    for word in words:
        assert word.lower() not in text.lower(), f"{word!r} in:\n{text}"


def after_the_first_step(process):
    """Waits until a started training works."""
    for line in process.stdout:
        if "the first step is done" in line:
            return
    raise AssertionError(f"the training ended with {process.wait()}")


def ended(process):
    """Its end: exit code and the rest of its words."""
    rest = process.stdout.read()
    code = process.wait(LIMIT_SECONDS)
    show(rest)
    return code, rest


def a_training_runs_and_leaves_a_tape(session):
    said = session.types("vramtape", "run", "--sim", "-o", "run.vtape", "train.py")
    has(said, "trained for 6 steps", "the tape is run.vtape")


def info_describes_the_run(session):
    said = session.types("vramtape", "info", "run.vtape")
    has(said, "train.py", "torch", "cuda", "started", "complete", "largest holders", "train_step")
    about = session.json("vramtape", "info", "run.vtape")
    assert about["meta"]["torch_version"] and about["meta"]["command"][-1] == "train.py", about["meta"]
    assert about["meta"]["end"]["kind"] == "exit", about["meta"]


def pytorchs_own_allocator_is_recorded_too(session):
    said = session.types("vramtape", "record", "--sim", "-o", "native.vtape", "train.py")
    has(said, "the tape is native.vtape")
    ours, theirs = (session.json("vramtape", "replay", run) for run in ("run.vtape", "native.vtape"))
    assert ours["peak_reserved_bytes"] == theirs["peak_reserved_bytes"], (ours, theirs)


def two_lines_of_python_do_the_same(session):
    session.writes("two.py", 'import vramtape\nvramtape.install(tape="two.vtape")\nexec(open("train.py").read())\n')
    session.types("python", "two.py", **simulated())
    has(session.types("vramtape", "info", "two.vtape"), "complete")
    session.writes("ring.py", 'import vramtape\nvramtape.install()\nexec(open("train.py").read())\n')
    said = session.types("python", "ring.py", **simulated())
    has(said, "ring", "tape=")


def a_second_run_replaces_nothing(session):
    before = os.path.getsize(os.path.join(session.folder, "run.vtape"))
    said = session.types("vramtape", "run", "--sim", "-o", "run.vtape", "train.py", "--steps", "1")
    has(said, "run.vtape exists", "run-2.vtape")
    assert os.path.getsize(os.path.join(session.folder, "run.vtape")) == before and session.has("run-2.vtape")
    os.remove(os.path.join(session.folder, "run-2.vtape"))
    has(session.types("vramtape", "run", "--sim", "-f", "-o", "two.vtape", "train.py"), "the tape is two.vtape")


def programs_start_as_they_are(session):
    session.writes("train.sh", '#!/bin/sh\nexec "$PYTHON" train.py --steps 1\n')
    os.chmod(os.path.join(session.folder, "train.sh"), 0o755)
    said = session.types("vramtape", "run", "--sim", "-o", "sh.vtape", "./train.sh", PYTHON=sys.executable)
    has(said, "trained for 1 steps", "sh.vtape")
    said = session.types("vramtape", "run", "--sim", "-o", "own.vtape", sys.executable, "train.py", "--steps", "1")
    has(said, "trained for 1 steps", "own.vtape")


def fit_understands_names_and_sizes(session):
    session.types("vramtape", "fit", "run.vtape", "--gpu", "4090")
    for gpu in ("RTX 4090", "a100", "h100", "l4", "a10g", "a6000", "a40"):
        said = session.types("vramtape", "fit", "run.vtape", "--gpu", gpu, last=1)
        assert re.search(r"\byes\b", said.rstrip().splitlines()[-1]), said
    for size in ("24GB", "24G", "24 GiB", "80g"):
        session.types("vramtape", "fit", "run.vtape", "--capacity", size, last=1)
    has(session.types("vramtape", "fit", "run.vtape", "--capacity", "24", code=2), "24", "unit", "GiB")
    has(session.types("vramtape", "fit", "run.vtape", "--gpu", "h1000", code=2), "did you mean", "h100")
    said = session.types("vramtape", "fit", "run.vtape", "--capacity", "512MiB", code=1, last=1)
    assert re.search(r"\bno\b", said.rstrip().splitlines()[-1]), said


def advice_has_one_voice(session):
    compared, wasted, tuned = (session.types("vramtape", verb, "run.vtape") for verb in ("compare", "waste", "tune"))
    has(wasted, "largest holders", "train.py")
    settings = session.json("vramtape", "tune", "run.vtape")["best"]
    if settings is not None:
        for said in (compared, wasted, tuned):
            has(said, settings["settings"])


def out_of_memory_is_recognised(session):
    said = session.types(
        "vramtape", "run", "--sim", "-o", "dead.vtape", "train.py", code=1, VRAMTAPE_SIM_MEMORY="600MiB"
    )
    has(said, "OutOfMemoryError", "the tape is dead.vtape")
    has(session.types("vramtape", "info", "dead.vtape"), "out of memory")
    assert session.json("vramtape", "info", "dead.vtape")["meta"]["end"]["kind"] == "out_of_memory"
    said = session.types("vramtape", "fit", "dead.vtape", "--gpu", "4090", code=1)
    last = said.rstrip().splitlines()[-1]
    has(last, "unknown", "at least")
    has_not(said, "fits,")
    for verb in ("compare", "tune", "waste"):
        has(session.types("vramtape", verb, "dead.vtape"), "at least", "unknown")


def a_halved_batch_is_recognised(session):
    line = ("vramtape", "run", "--sim", "-o", "halved.vtape", "train.py", "--halve")
    said = session.types(*line, VRAMTAPE_SIM_MEMORY="900MiB")
    has(said, "going on with a batch of", "trained for 6 steps")
    has(session.types("vramtape", "fit", "halved.vtape", "--gpu", "4090", code=1), "unknown", "at least")


def sigterm_ends_the_tape(session):
    run = session.starts("vramtape", "run", "--sim", "-o", "term.vtape", "train.py", "--seconds", "60")
    after_the_first_step(run)
    print(f"$ kill {run.pid}")
    run.terminate()
    code, _ = ended(run)
    assert code == -signal.SIGTERM, code
    has(session.types("vramtape", "info", "term.vtape"), "SIGTERM")


def kill_9_is_recovered(session):
    run = session.starts("vramtape", "run", "--sim", "-o", "killed.vtape", "train.py", "--seconds", "60")
    after_the_first_step(run)
    time.sleep(1.5)  # A tape is flushed every second or so.
    print(f"$ kill -9 {run.pid}")
    run.kill()
    ended(run)
    said = session.types("vramtape", "info", "killed.vtape")
    has(said, f"vramtape recover {run.pid}", "killed")
    command = re.search(r"vramtape recover .*", said).group().rstrip("`. ")
    session.types(*shlex.split(command))
    has(session.types("vramtape", "info", re.search(r"-o (\S+)", command).group(1)), "killed")
    left = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"vramtape-run-{run.pid}")]
    assert not left, left


def a_full_disk_ends_the_tape(session):
    os.mkdir(os.path.join(session.folder, "small"))
    line = ("vramtape", "run", "--sim", "-o", "small/full.vtape", "train.py", "--steps", "3000")
    keep = "cp small/full.vtape kept.vtape"
    said = session.types(*line, within=on_small_disk("small", "128k", keep))
    has(said, "trained for", "full.vtape", "ended early")
    has(session.types("vramtape", "info", "kept.vtape"), "early")


def a_small_dev_shm_says_what_to_do(session):
    os.mkdir(os.path.join(session.folder, "shm"))
    line = ("vramtape", "run", "--sim", "-o", "shm.vtape", "train.py")
    said = session.types(*line, within=on_small_disk("shm", "64m"), VRAMTAPE_RINGS=os.path.join(session.folder, "shm"))
    has(said, "--shm-size", "VRAMTAPE_RINGS", "ring_events")
    has_not(said, "allocator::", "error=")


def a_tape_from_the_middle_says_so(session):
    run = session.starts("vramtape", "run", "--sim", "-o", "long.vtape", "train.py", "--seconds", "12")
    after_the_first_step(run)
    session.types("vramtape", "attach", str(run.pid), "-o", "middle.vtape", "--duration", "2s")
    run.terminate()
    ended(run)
    said = session.types("vramtape", "compare", "middle.vtape")
    has(said, "starts mid-run")
    session.types("vramtape", "compare", "middle.vtape", "--cold")
    session.types("vramtape", "verify", "middle.vtape", code=(0, 1))


def wrong_words_have_right_answers(session):
    session.types("gzip", "-k", "run.vtape")
    has(session.types("vramtape", "info", "run.vtape.gz"), "complete")
    session.types("vramtape", "verify", "run.vtape")
    has(session.types("vramtape", "info", session.folder), "run.vtape")
    said = session.types("python", "-c", "import vramtape\nwith vramtape.profile('block.html'): pass", code=(0, 1))
    has(said, "install")
    has(session.types("vramtape", "info", "nowhere.vtape", code=2), "nowhere.vtape")


def every_verb_is_a_function(session):
    code = (
        "import vramtape\n"
        "print(vramtape.info('run.vtape')['devices'][0]['peak_reserved_bytes'])\n"
        "print(vramtape.verify('run.vtape')['same'])\n"
        "vramtape.export('run.vtape', 'run.pickle')\n"
        "vramtape.edit('run.vtape', ['scale:0.5'], 'half.vtape')\n"
    )
    session.types("python", "-c", code)
    assert session.has("run.pickle") and session.has("half.vtape")


def simulated():
    """The variables that `--sim` sets, for a program that is started directly."""
    if "VRAMTAPE_SIMCUDA" in os.environ:
        return {}
    import vramtape

    return {"VRAMTAPE_SIMCUDA": os.path.join(os.path.dirname(vramtape.__file__), "_sim")}


def on_small_disk(folder, size, at_the_end=":"):
    """Before a command: a file system of that size in `folder`, for this command only."""
    script = f'mount -t tmpfs -o size={size} none {folder} || exit 125; "$@"; code=$?; {at_the_end}; exit $code'
    return ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m", "sh", "-c", script, "sh"]


CHAPTERS = (
    a_training_runs_and_leaves_a_tape,
    info_describes_the_run,
    pytorchs_own_allocator_is_recorded_too,
    two_lines_of_python_do_the_same,
    a_second_run_replaces_nothing,
    programs_start_as_they_are,
    fit_understands_names_and_sizes,
    advice_has_one_voice,
    out_of_memory_is_recognised,
    a_halved_batch_is_recognised,
    sigterm_ends_the_tape,
    kill_9_is_recovered,
    a_full_disk_ends_the_tape,
    a_small_dev_shm_says_what_to_do,
    a_tape_from_the_middle_says_so,
    wrong_words_have_right_answers,
    every_verb_is_a_function,
)


def main():
    """Runs the chapters in order; with names of chapters on the command line, only the first and these."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        session = Session(os.path.realpath(folder))
        for chapter in CHAPTERS:
            if sys.argv[1:] and chapter is not CHAPTERS[0] and chapter.__name__ not in sys.argv[1:]:
                continue
            print(f"\n# {chapter.__name__.replace('_', ' ')}\n", flush=True)
            begun = time.monotonic()
            try:
                chapter(session)
                print(f"PASS first_hour.{chapter.__name__} {time.monotonic() - begun:.1f} s", flush=True)
            except Exception as error:  # Reported; the other chapters still run.
                failed += 1
                print(f"FAIL first_hour.{chapter.__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)


main()
