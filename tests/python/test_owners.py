"""Files of other users: none is taken for a ring, a bridge, a temporary file or a tape of one's own, nor changed.

Other users' files are made with `chown`, which only root may do; as another user only permissions, links and pipes are
tried, and the lines say so.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import COMMAND, LIBRARY, ROOT, SIMCUDA, clean_environment, run_cases

OTHER_USER = 4711
IS_ROOT = os.geteuid() == 0
NOTE = "" if IS_ROOT else "(not as root: without files of another user)"
LIMIT_SECONDS = 120
# A process that allocates on the simulated device, and ends as it is asked to.
PROGRAM = """
import ctypes, os, signal, sys
library = ctypes.CDLL(os.environ["VRAMTAPE_LIBRARY"])
library.vramtape_malloc.restype = ctypes.c_void_p
library.vramtape_malloc.argtypes = (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
assert all(library.vramtape_malloc(4096, 0, None) for _ in range(100))
print("allocated", flush=True)
if "kill" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def allocate(folder, *arguments, conf="record:ring", code=0, **settings):
    """Standard error of a process that allocated, which none of these files may keep from doing so."""
    rings = folder / "rings"
    rings.mkdir(exist_ok=True)
    environment = {"VRAMTAPE_LIBRARY": LIBRARY, "VRAMTAPE_RINGS": str(rings), "VRAMTAPE_CONF": f"device:sim,{conf}"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        env=clean_environment(**{**environment, **settings}),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert (done.returncode, done.stdout) == (code, "allocated\n"), (done.returncode, done.stdout, done.stderr)
    return done.stderr


def command(folder, *arguments, code=0):
    environment = {**os.environ, "VRAMTAPE_RINGS": str(folder / "rings")}
    line = [COMMAND, *map(str, arguments)]
    done = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    assert done.returncode == code, (line, done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def give_away(path):
    """Makes the file another user's, which this one could write."""
    path.chmod(0o666)
    os.chown(path, OTHER_USER, -1)


def a_ring_of_another_user_is_not_found(folder):
    allocate(folder, "kill", code=-9)
    rings = folder / "rings"
    [own] = rings.iterdir()
    pid = int(own.name.split("-")[2])
    planted = [rings / own.name.replace(f"-{pid}-", f"-{number}-") for number in (1, 2)]
    for path in planted:
        shutil.copy(own, path)
        path.chmod(0o666)
        if IS_ROOT:
            os.chown(path, OTHER_USER, -1)
    link = rings / own.name.replace(f"-{pid}-", "-3-")
    link.symlink_to(own)
    os.mkfifo(rings / own.name.replace(f"-{pid}-", "-4-"))

    found = json.loads(command(folder, "recover", "--json"))["rings"]
    assert [ring["path"] for ring in found] == [str(own)], found
    assert "no ring" in command(folder, "recover", "1", "-o", "x.vtape", code=2)
    assert "symbolic link" in command(folder, "recover", link, "-o", "x.vtape", code=2)
    command(folder, "recover", pid, "-o", "own.vtape")
    if IS_ROOT:
        removed = json.loads(command(folder, "clean", "--rings", "--json"))["removed"]
        assert removed == [str(own)] and all(path.exists() for path in planted), removed
    return NOTE


def a_tape_replaces_only_a_tape_of_ones_own(folder):
    notes, link, pipe, other = (folder / name for name in ("notes.vtape", "link.vtape", "pipe.vtape", "other.vtape"))
    notes.write_text("do not lose me")
    link.symlink_to(notes)
    os.mkfifo(pipe)
    planted = [
        (notes, "not a tape"),
        (link, "symbolic link"),
        (pipe, "a pipe"),
        (Path("/dev/null"), "a device"),
    ]
    if IS_ROOT:
        other.touch()
        give_away(other)
        planted.append((other, "belongs to user 4711"))
    for path, why in planted:
        said = allocate(folder, conf=f"record:file,tape:{path},tape_replace:True")
        assert said.startswith("vramtape: no tape: ") and said.count("\n") == 1, said
        assert str(path) in said and why in said, said
    for path, why in ((pipe, "a pipe"), (Path("/dev/null"), "a device")):
        said = allocate(folder, conf=f"record:file,tape:{path}")
        assert str(path) in said and why in said, said
    assert "run-2.vtape" not in allocate(folder, conf="record:file,tape:run.vtape")
    assert notes.read_text() == "do not lose me" and link.is_symlink() and pipe.is_fifo()
    assert not other.exists() or other.stat().st_size == 0
    command(folder, "info", "run.vtape")
    allocate(folder, conf="record:file,tape:run.vtape,tape_replace:True")
    command(folder, "info", "run.vtape")
    return NOTE


def a_rank_that_is_no_number_leads_nowhere(folder):
    (folder / "run-").mkdir()
    said = allocate(folder, conf="record:file,tape:run-{rank}.vtape", RANK="/../planted")
    assert said.startswith("vramtape: no tape: ") and "RANK" in said and "/../planted" in said, said
    assert sorted(path.name for path in folder.iterdir()) == ["rings", "run-"]
    allocate(folder, conf="record:file,tape:run-{rank}.vtape", RANK="3")
    assert (folder / "run-3.vtape").exists()


def launched(folder, *arguments, **settings):
    """`vramtape run` of nothing: its standard error, as it refuses to start."""
    environment = {"PYTHONPATH": os.path.join(ROOT, "python"), "VRAMTAPE_LIBRARY": LIBRARY, "VRAMTAPE_SIMCUDA": SIMCUDA}
    line = [sys.executable, "-m", "vramtape", "run", *arguments, "-c", "print('it runs')"]
    done = subprocess.run(
        line,
        cwd=folder,
        env=clean_environment(**environment, **settings),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def a_run_says_so_before_it_starts(folder):
    notes = folder / "notes.vtape"
    notes.write_text("do not lose me")
    code, said = launched(folder, "-f", "-o", "notes.vtape")
    assert code == 2 and "it is not a tape" in said and "it runs" not in said, said
    code, said = launched(folder, "-o", "run-{rank}.vtape", RANK="../x")
    assert code == 2 and "RANK" in said and "'../x'" in said, said
    assert notes.read_text() == "do not lose me"


def a_planted_temporary_file_is_not_used(folder):
    """A file that appears whole is made under a random name; what has the names of old is left alone."""
    allocate(folder, "kill", code=-9)
    [ring] = (folder / "rings").iterdir()
    private = folder / "private"
    private.write_text("private")
    names = [f"own.vtape.$${end}" for end in (".part", "-0.part", "-1.part", ".tmp", "")] + ["own.vtape.part"]
    plant = "; ".join(f"ln -s private {name}" for name in names)
    line = f'{plant}; exec "$0" recover "$1" -o own.vtape'
    subprocess.run(["sh", "-c", line, COMMAND, str(ring)], cwd=folder, check=True, timeout=LIMIT_SECONDS)
    made = (folder / "own.vtape").lstat()
    assert private.read_text() == "private" and made.st_uid == os.geteuid() and made.st_size > 0
    if IS_ROOT:
        give_away(folder / "own.vtape")
        command(folder, "recover", ring, "-f", "-o", "own.vtape")
        assert (folder / "own.vtape").stat().st_uid == 0, "it was replaced, not written into"
    return NOTE


def a_planted_bridge_is_not_loaded(folder):
    sys.path.insert(0, os.path.join(ROOT, "python"))
    from vramtape._bridge import trust

    cache = folder / "bridge"
    cache.mkdir(mode=0o700)
    library = cache / "planted.so"
    library.write_bytes(b"\x7fELF")
    library.chmod(0o755)
    assert trust.is_ours(library)

    def is_refused():
        try:
            trust.is_ours(library)
        except trust.Untrusted:
            return True
        return False

    library.chmod(0o775)
    assert is_refused(), "others can write it"
    library.chmod(0o755)
    cache.chmod(0o777)
    assert is_refused(), "others can replace it"
    cache.chmod(0o700)
    if IS_ROOT:
        for path in (library, cache):
            os.chown(path, OTHER_USER, -1)
            assert is_refused(), f"{path} is another's"
            os.chown(path, 0, -1)
    return NOTE


def case(function):
    def run():
        with tempfile.TemporaryDirectory() as folder:
            return function(Path(folder))

    return (f"owners.{function.__name__}", run)


if __name__ == "__main__":
    ctypes.CDLL(LIBRARY)  # Fails here, not in every case.
    cases = (
        a_ring_of_another_user_is_not_found,
        a_tape_replaces_only_a_tape_of_ones_own,
        a_rank_that_is_no_number_leads_nowhere,
        a_run_says_so_before_it_starts,
        a_planted_temporary_file_is_not_used,
        a_planted_bridge_is_not_loaded,
    )
    run_cases([case(function) for function in cases])
