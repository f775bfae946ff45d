"""The parts of training steps that `vramtape view` names lie where the program's own marks are.

A GPT with a vocabulary of 151,936 words trains on the simulated driver, plain and checkpointed, and marks its passes by
`record_function`. The patterns come from the marks of phases, which vramtape sets by itself, and from the shape of
memory; the program's marks are compared with them and are not their source.
"""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import COMMAND, PACKAGE, ROOT, clean_environment, run_cases

PROGRAM = os.path.join(ROOT, "tests/python/view/gpt.py")
STEPS = 3
BLOCKS = 8
RANGE_BEGIN, RANGE_END = 2, 3
# Boundaries may differ by this part of a step: a phase begins with its first operation, a mark before it.
SLACK = 0.03


def patterns(folder, *flags):
    """The patterns of a run, its marks as `(name, start, end)`, and the moments of a step."""
    tape, environment = folder / "run.vtape", clean_environment(**PACKAGE)
    conf = "marks:auto,stacks:none"
    command = [sys.executable, "-m", "vramtape", "run", "--sim", "--conf", conf, "-o", tape, PROGRAM, *flags]
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    page = folder / "run.html"
    view = subprocess.run([COMMAND, "view", "--json", str(tape), "-o", str(page)], capture_output=True, check=True)
    found = [(it["name"], it["start"], it["end"]) for it in json.loads(view.stdout)["patterns"][0]]
    return found, ranges(page.read_text())


def ranges(page):
    """The named ranges of a page, as `docs/page-format.md` has them."""
    names = json.loads(chunk(page, "d0/names"))["marks"]
    moments, kinds, numbers = arrays(chunk(page, "d0/marks"), 3)
    open_ranges, closed, moment = [], [], 0
    for step, kind, number in zip(moments, kinds, numbers):
        moment += step
        if kind == RANGE_BEGIN:
            open_ranges.append((names[number], moment))
        elif kind == RANGE_END:
            name, start = open_ranges.pop()
            closed.append((name, start, moment))
    return sorted(closed, key=lambda it: it[1])


def chunk(page, name):
    [text] = re.findall(f'id="{name}">([^<]*)<', page)
    return gzip.decompress(base64.b64decode(text))


def arrays(data, count):
    """The first arrays of a chunk: lengths and numbers are LEB128 varints."""
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value, shift = 0, 0
    length, *rest = numbers
    return [rest[at * (length + 1) :][:length] for at in range(count)]


def of(spans, name):
    return [(start, end) for found, start, end in spans if found == name]


def near(found, expected, slack, what):
    assert len(found) == len(expected), (what, found, expected)
    for (start, end), (first, last) in zip(found, expected):
        assert abs(start - first) <= slack and abs(end - last) <= slack, (what, (start, end), (first, last), slack)


def check(found, marks):
    backward = of(marks, "backward")
    assert len(backward) == STEPS
    slack = SLACK * (backward[-1][0] - backward[-2][0])
    # The first phase begins behind the records that name the parameters.
    near(of(found, "backward")[1:], backward[1:], slack, "backward")
    [(start, end), *_] = of(found, "backward")
    assert backward[0][0] <= start and abs(end - backward[0][1]) <= slack, (start, end, backward[0])
    near(of(found, "optimizer step"), of(marks, "optimizer step"), slack, "optimizer step")
    # Phases have no first forward pass: before the first backward pass is all that made the model, too.
    for start, end in of(found, "forward"):
        inside = [one for one in of(marks, "forward") if start <= one[0] and one[1] <= end]
        assert len(inside) == 1 and end - inside[0][1] <= slack, (start, end, of(marks, "forward"))
    assert len(of(found, "forward")) == STEPS - 1
    logits = of(marks, "logits")[1:]
    assert len(of(found, "logits")) == STEPS - 1
    for (start, end), (first, last) in zip(of(found, "logits"), logits):
        # They are allocated under the mark, and freed by the beginning of the backward pass.
        assert abs(start - first) <= slack and last <= end <= last + slack, (start, end, first, last)
    first_step = of(marks, "optimizer step")[0]
    [(start, end)] = of(found, "optimizer state")
    assert first_step[0] <= start < end <= first_step[1]
    [(start, end)] = of(found, "parameters")
    assert start < end <= of(marks, "forward")[0][0], (start, end)
    [(start, end)] = of(found, "tallest spike")
    assert end - start < slack and any(start <= last + slack and first <= end for first, last in logits)


def a_plain_step_is_labelled():
    with tempfile.TemporaryDirectory() as folder:
        found, marks = patterns(Path(folder))
        check(found, marks)
        assert of(found, "recomputation") == []


def each_checkpointed_block_is_labelled():
    with tempfile.TemporaryDirectory() as folder:
        found, marks = patterns(Path(folder), "--checkpoint")
        check(found, marks)
        again, expected = of(found, "recomputation"), of(marks, "recomputation")
        assert len(again) == len(expected) == STEPS * BLOCKS
        for (start, end), (first, last) in zip(again, expected):
            assert start < last and first < end, ((start, end), (first, last))


if __name__ == "__main__":
    run_cases(
        [
            ("view.a_plain_step_is_labelled", a_plain_step_is_labelled),
            ("view.each_checkpointed_block_is_labelled", each_checkpointed_block_is_labelled),
        ]
    )
