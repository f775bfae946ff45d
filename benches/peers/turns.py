"""Subjects that take turns: each a process of its own, that waits for its turn and answers with a number."""

import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "python"))

import harness


class Subject:
    """Runs `script --child NAME` in a clean environment: a line when it is ready, and one for each that it reads."""

    def __init__(self, script, name, settings):
        self.process = subprocess.Popen(
            [sys.executable, script, "--child", name],
            env=harness.clean_environment(**settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"a subject ended with {self.process.wait()}; its words are above"
        return line

    def measure(self, what):
        print(what, file=self.process.stdin, flush=True)
        return float(self.answer())


def medians(script, subjects, rounds):
    """Of each subject, what each thing takes: `subjects` are settings by name, `rounds` counts by thing measured."""
    running = {name: Subject(script, name, settings) for name, settings in subjects.items()}
    taken = {name: {what: [] for what in rounds} for name in subjects}
    try:
        for subject in running.values():
            subject.answer()
        for what, count in rounds.items():
            for _ in range(count):
                for name, subject in running.items():
                    taken[name][what].append(subject.measure(what))
    finally:
        for subject in running.values():
            subject.process.stdin.close()
            subject.process.wait()
    return {name: {what: statistics.median(of) for what, of in all.items()} for name, all in taken.items()}
