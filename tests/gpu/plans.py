"""Plans for the GPU suite: each program is recorded on a simulated GPU, and `vramtape plan` plans its tape.

    plans.py VRAMTAPE FOLDER [GPU]      FOLDER/PROGRAM.vplan, and FOLDER/training.vplan for the sessions

The environment names the library and the simulated driver, as for `python -m vramtape run --sim`.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAINING = """
import sys
sys.path.insert(0, sys.argv[1])
import session
torch = session.be_deterministic()
import training
training.run(False)
"""


def main():
    command, folder, *gpu = sys.argv[1:]
    sys.dont_write_bytecode = True
    from children import PROGRAMS

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    recordings = HERE.parent / "python/recordings"
    programs = {name: [str(recordings / f"{name}.py")] for name in PROGRAMS}
    programs["training"] = ["-c", TRAINING, str(HERE)]
    for name, program in programs.items():
        print(f"{name} ...", flush=True)
        tape, plan = folder / f"{name}.vtape", folder / f"{name}.vplan"
        flags = [f"--sim={(gpu or ['h100'])[0]}", "-q", "-f", "--conf", "stacks:none", "-o", str(tape)]
        subprocess.run([sys.executable, "-m", "vramtape", "run", *flags, *program], check=True)
        line = [command, "plan", "--json", "--capacity=unlimited", "-o", str(plan), str(tape)]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        tape.unlink()


if __name__ == "__main__":
    main()
