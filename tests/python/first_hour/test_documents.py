"""Commands and outputs in the documents are real: `console` blocks run, and verbs, options and names exist.

A document's `console` blocks run in order in one folder, with the installed wheel and the simulated driver. A line
after `$ ` is a command; the lines behind it are its output, in order. `...` stands for any lines, at the end of a line
for the rest of the line, and white space counts as one space. The folder has `train.py`, the GPT of `examples`, and
`snapshot.pickle`, a memory snapshot of PyTorch 2.15. A `python` block that calls `vramtape.install` goes to the top of
`train.py`. Verbs and options of `sh` blocks, and of commands in the text, are looked up in `--help`, and names of the
package in `python` blocks must exist.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
SNAPSHOT = os.path.join(ROOT, "tests/data/traces/gpt2_train-default.pickle.zst")
LIMIT_SECONDS = 300
# The results and tapes of recordings, by command line and script.
RECORDED = {}


def documents():
    """README.md and the pages of docs, without the results."""
    pages = sorted(name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))
    return ["README.md", *(os.path.join("docs", name) for name in pages)]


def blocks(name):
    """The fenced blocks of a document: (language, lines)."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        text = file.read()
    return [(kind, body.splitlines()) for kind, body in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", text)]


def environment():
    """Nothing of the caller's that steers an allocator, and the simulated driver."""
    steering = ("VRAMTAPE_CONF", "VRAMTAPE_SIM_", "PYTORCH_", "CUDA_VISIBLE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    kept["PYTHONUNBUFFERED"] = "1"
    if "VRAMTAPE_SIMCUDA" not in kept:
        import vramtape

        kept["VRAMTAPE_SIMCUDA"] = os.path.join(os.path.dirname(vramtape.__file__), "_sim")
    return kept


def run(line, folder):
    """The output of a command line of a document, both streams."""
    words = shlex.split(line)
    if words[0] == "vramtape":
        words[:1] = [sys.executable, "-m", "vramtape"]
    elif words[0] == "python":
        words[0] = sys.executable
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    return done.returncode, done.stdout


def record(line, folder):
    """The same for a recording, which is made once for each script, because several documents begin with it."""
    with open(os.path.join(folder, "train.py"), encoding="utf-8") as file:
        key = line, file.read()
    if key not in RECORDED:
        before = set(os.listdir(folder))
        result = run(line, folder)
        made = sorted(name for name in set(os.listdir(folder)) - before if name.endswith(".vtape"))
        files = {}
        for name in made:
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
        RECORDED[key] = result, files
    result, files = RECORDED[key]
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    return result


def pattern(lines):
    """A regular expression of the shown lines."""
    parts = []
    for line in lines:
        words = line.split()
        if words == ["..."]:
            parts.append(r"(?:.*\n)*?")
            continue
        is_cut = bool(words) and words[-1] == "..."
        shown = " +".join(re.escape(word) for word in (words[:-1] if is_cut else words))
        end = ".*" if is_cut else " *"
        parts.append(f" *{shown}{end}\\n")
    return "".join(parts)


def shown_output_is_real(name):
    """Runs a document's console blocks."""
    commands = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        script = os.path.join(folder, "train.py")
        shutil.copy(os.path.join(ROOT, "examples/gpt.py"), script)
        shutil.copy(SNAPSHOT, os.path.join(folder, "snapshot.pickle"))
        for kind, lines in blocks(name):
            if kind == "python" and any("vramtape.install(" in line for line in lines):
                with open(script, encoding="utf-8") as file:
                    rest = file.read()
                with open(script, "w", encoding="utf-8") as file:
                    file.write("\n".join([*lines, "", rest]))
            if kind != "console":
                continue
            for line, output in console(lines):
                code, text = record(line, folder) if line.startswith("vramtape run ") else run(line, folder)
                assert code == 0, f"{name}: `{line}` ended with {code}:\n{text}"
                if output:
                    assert re.fullmatch(pattern(output), text), f"{name}: `{line}` prints otherwise:\n{text}"
                commands += 1
    return commands


def console(lines):
    """The commands of a block, each with its output."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"output without a command: {line}"
            found[-1][1].append(line)
    return found


def command_lines(name):
    """The `vramtape` commands of a document, in its `sh` and `console` blocks, without comments, and in its text."""
    command = re.compile(r"(?:\w+=\S+ )*(?:python -m )?vramtape ([a-z].*)")
    for kind, lines in blocks(name):
        if kind in ("sh", "console"):
            for line in lines:
                found = command.match(re.sub(r"\s#.*", "", line.removeprefix("$ ")))
                if found:
                    yield found.group(1)
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        text = re.sub(r"(?ms)^```.*?^```$", "", file.read())
    for code in re.findall(r"`([^`]+)`", text):
        found = command.fullmatch(" ".join(code.split()))
        if found:
            yield found.group(1)


def commands_have_help(name, helps):
    """Each verb and option of a document's commands is in the verb's `--help`."""
    commands = 0
    for line in command_lines(name):
        verb, *rest = shlex.split(line)
        if verb not in helps:
            code, text = run(f"vramtape {verb} --help", tempfile.gettempdir())
            assert code == 0, f"{name}: no verb `{verb}`"
            helps[verb] = text
        for option in rest:
            is_program = option.endswith(".py") or option in ("torchrun", "-m")
            if is_program or (not option.startswith("-") and verb in ("run", "record")):
                break  # The program's own options follow.
            option = re.match(r"(--?[\w-]+)?", option).group()
            assert not option or re.search(rf"(?<![\w-]){option}\b", helps[verb]), f"{name}: no {option} in `{line}`"
        commands += 1
    return commands


def names_exist(name):
    """Each `vramtape.NAME` of a document's `python` blocks is in the package."""
    import vramtape

    names = set()
    for kind, lines in blocks(name):
        if kind == "python":
            names.update(re.findall(r"(?<!import )(?<!from )\bvramtape\.(\w+)", "\n".join(lines)))
    missing = sorted(one for one in names - {"integrations"} if not hasattr(vramtape, one))
    assert not missing, f"{name}: the package has no {missing}"
    return len(names)


def main():
    """A case for each document that shows a command."""
    failed, shown, looked_up, helps = 0, 0, 0, {}
    for name in documents():
        begun = time.monotonic()
        try:
            ran, found, names = shown_output_is_real(name), commands_have_help(name, helps), names_exist(name)
            shown, looked_up = shown + ran, looked_up + found
            if ran or found or names:
                counts = f"{ran} run, {found} in --help, {names} names"
                print(f"PASS documents.{name} {time.monotonic() - begun:.1f} s ({counts})", flush=True)
        except Exception as error:  # A document reports; the others are still read.
            failed += 1
            print(f"FAIL documents.{name}: {error}", flush=True)
    if not failed and (shown < 5 or looked_up < 10):
        failed += 1
        print(f"FAIL documents: {shown} commands run and {looked_up} looked up, fewer than there were", flush=True)
    sys.exit(1 if failed else 0)


main()
