"""A kernel that writes and one that counts what it does not find, the second by programmatic dependent launch."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

BLOCK = 1024


@triton.jit
def write(to, value, words, BLOCK: tl.constexpr):
    gdc_wait()
    gdc_launch_dependents()  # Before the write: the reader starts as early as it can.
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(to + at, tl.zeros((BLOCK,), tl.float32) + value, mask=at < words)


@triton.jit
def count(of, value, wrong, words, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gdc_wait()
    gdc_launch_dependents()
    found = tl.load(of + at, mask=at < words, other=0.0)
    bad = tl.sum(((found != value) & (at < words)).to(tl.int32))
    tl.atomic_add(wrong, bad)


def launch_pair(to, of, wrong, value):
    words = to.numel()
    grid = (triton.cdiv(words, BLOCK),)
    write[grid](to, value, words, BLOCK=BLOCK, launch_pdl=True)
    count[grid](of, value, wrong, words, BLOCK=BLOCK, launch_pdl=True)
