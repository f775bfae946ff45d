"""Dry runs of the tests: each is run by the command, and its JSON has to be what the schema says."""

import json
import os
import subprocess
import sys
import tempfile

import schemas
from harness import PACKAGE, clean_environment

SCRATCH = tempfile.TemporaryDirectory()
LIMIT_SECONDS = 300
FITS, DOES_NOT_FIT, USAGE, FAILED, INCOMPLETE = range(5)
# The fields of the schema that this script's dry runs have printed.
SEEN = schemas.Seen()


class Ran:
    """A dry run that has ended."""

    def __init__(self, program, *flags, code=FITS, folder=None, words=(), **settings):
        self.folder = folder or tempfile.mkdtemp(dir=SCRATCH.name)
        if program is not None:
            with open(os.path.join(self.folder, "program.py"), "w") as file:
                file.write(program)
            words = words if "program.py" in words else ("program.py", *words)
        line = [sys.executable, "-m", "vramtape", "dry-run", "--json", "out.json", *flags, *words]
        self.done = subprocess.run(
            line,
            cwd=self.folder,
            env=clean_environment(TMPDIR=SCRATCH.name, **PACKAGE, **settings),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        self.said = self.done.stdout + self.done.stderr
        assert self.done.returncode == code, f"ended with {self.done.returncode}: {self.said}"
        if code != USAGE:
            self.result = json.loads(self.read("out.json"))
            SEEN.check("dry-run", self.result)
            assert self.result["exit_code"] == code, self.result

    def read(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return file.read()

    @property
    def device(self):
        (device,) = self.result["devices"]
        return device
