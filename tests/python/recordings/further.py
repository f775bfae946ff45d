"""Nineteen further programs: further.py NAME SEED VARIED REPEATED; without arguments their names.

Each makes VARIED steps of shapes that SEED draws, and then the same step REPEATED times. They were written after the
strategy `stitch`, to see how it does on programs that nothing in it was chosen for. `further_programs.py` runs all.
"""

import random
import sys

import further_images
import further_rest
import further_text

PROGRAMS = {**further_text.PROGRAMS, **further_images.PROGRAMS, **further_rest.PROGRAMS}


def main(name, seed, varied, repeated):
    shape, step = PROGRAMS[name](random.Random(seed))
    for _ in range(varied):
        step(*shape())
    last = shape()
    for _ in range(repeated):
        step(*last)


if sys.argv[1:]:
    main(sys.argv[1], *map(int, sys.argv[2:]))
else:
    print(*PROGRAMS)
