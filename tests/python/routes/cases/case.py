"""One row of the table."""

from collections import namedtuple

# `name` as the table shows it, `run(torch)` the script, `needs` what torch must have, by its path under `torch`.
Case = namedtuple("Case", "name run needs")

MIB = 1 << 20


class Cases(list):
    """A group's rows; a decorator adds one."""

    def add(self, name, *needs):
        def adding(run):
            self.append(Case(name, run, needs))
            return run

        return adding


def tensor(torch, size_bytes):
    return torch.empty(size_bytes, dtype=torch.uint8, device="cuda")


def work(torch):
    """A little of everything: both pools, a split, a merge, a hole; what is returned is to be kept."""
    kept = [tensor(torch, size) for size in (100, 3000, 3 * MIB, 40 * MIB, 700)]
    passing = [tensor(torch, size) for size in (512, 5 * MIB, 90 * MIB)]
    del passing[1]
    kept.append(tensor(torch, 2 * MIB))
    return kept
