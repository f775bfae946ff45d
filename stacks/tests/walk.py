"""Compares captured stacks with Python's own, in whatever Python runs this: `python walk.py libcapture.so`."""

import ctypes
import functools
import os
import sys
import threading
import time

library = ctypes.CDLL(sys.argv[1])  # CDLL gives the interpreter's lock up around each call, as PyTorch does.
holding = ctypes.PyDLL(sys.argv[1])  # PyDLL does not.
library.capture_ns.restype = ctypes.c_double
IS_NATIVE = os.environ.get("CAPTURE") == "native"
HAS_QUALNAME = sys.version_info >= (3, 11)


def captured(lib=library):
    buffer = threading.local().__dict__.setdefault("buffer", ctypes.create_string_buffer(1 << 20))
    lib.capture_text.restype = ctypes.c_size_t
    length = lib.capture_text(buffer, ctypes.c_size_t(len(buffer)))
    assert length <= len(buffer)
    lines = buffer.raw[:length].decode().splitlines()
    frames = [(name, filename, int(line)) for name, filename, line in (text.split("\t") for text in lines)]
    if IS_NATIVE:
        native = [frame for frame in frames if frame[2] == 0]
        assert native == frames[: len(native)], frames
        assert any("_ctypes" in filename for _, filename, _ in native), native
        frames = frames[len(native) :]
    return frames


def expected(frame):
    frames = []
    while frame is not None:
        code = frame.f_code
        frames.append((code.co_qualname if HAS_QUALNAME else code.co_name, code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return frames


def same(lib=library):
    """The innermost frame is in the middle of two different lines; all others have to be the same."""
    got, want = captured(lib), expected(sys._getframe())
    assert got[0][0] == "captured", got[:3]
    assert got[1][:2] == want[0][:2], (got[1], want[0])
    assert got[2:] == want[1:], [pair for pair in zip(got[2:], want[1:]) if pair[0] != pair[1]][:3]
    return len(got)


def deep(depth, then=same):
    return then() if depth <= 1 else deep(depth - 1, then)


def depths():
    sys.setrecursionlimit(5000)
    lengths = [deep(depth) for depth in (1, 20, 300, 1, 20, 300)]
    assert lengths[:3] == lengths[3:] and lengths[1] - lengths[0] == 19, lengths


def generators():
    def inner():
        yield same()
        yield same()

    def outer():
        yield from inner()
        yield deep(3)

    assert len(list(outer())) == 3
    assert all([same() for _ in range(2)]) and all(same() for _ in range(2))
    assert {key: same() for key in "ab"}


def coroutines():
    class Pause:
        def __await__(self):
            yield same()

    async def inner():
        await Pause()
        return same()

    async def outer():
        return await inner()

    coroutine = outer()
    coroutine.send(None)
    try:
        coroutine.send(None)
    except StopIteration as end:
        assert end.value > 2


def through_c():
    """C code between Python's frames: sort, map, reduce, a decorator, a class body, eval, exec, a C callback."""
    sorted([2, 1], key=lambda n: same() and n)
    assert list(map(lambda _: same(), [1]))
    functools.reduce(lambda a, b: same(), [1, 2, 3])
    functools.lru_cache(maxsize=None)(lambda n: same())(1)

    class Body:
        length = same()

        @property
        def value(self):
            return same()

        def __del__(self):
            same()

    assert Body().value
    eval("same()")
    exec("def made():\n\n    return same()\nmade()", globals())
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: same() * 0)
    array = (ctypes.c_int * 4)(4, 3, 2, 1)
    ctypes.CDLL(None).qsort(array, ctypes.c_size_t(4), ctypes.c_size_t(4), compare)


def exceptions():
    """A capture while an exception is on its way changes nothing of it."""

    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            same()

    try:
        with Manager():
            raise KeyError("kept")
    except KeyError as error:
        same()
        assert error.args == ("kept",)


def with_the_lock_held():
    assert deep(5, lambda: same(holding)) > 5


def threads():
    failures, stop = [], threading.Event()

    def work(number):
        try:
            while not stop.is_set():
                deep(5 + number)
        except BaseException as error:
            failures.append(error)

    many = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in many]
    time.sleep(0.3)
    stop.set()
    [thread.join() for thread in many]
    assert not failures, failures


def same_places_are_one_stack():
    def numbers(count):
        return [library.capture_id() for _ in range(count)]

    many = numbers(100)
    # The interpreter's own C code takes shorter ways after some rounds.
    assert len(set(many)) <= (3 if IS_NATIVE else 1) and 0 not in many
    assert library.capture_id() not in many


def code_that_comes_and_goes():
    """A code object at the address of one that is gone would be taken for it, if gone it were."""
    for number in range(300):
        space = {"captured": captured}
        exec(compile("\n" * number + f"def made_{number}():\n    return captured()", f"<made {number}>", "exec"), space)
        got = space[f"made_{number}"]()[1]
        assert got == (f"made_{number}", f"<made {number}>", number + 2), got


def greenlets():
    try:
        import greenlet
    except ImportError:
        return

    def inside():
        same()
        main.switch()
        same()

    main = greenlet.getcurrent()
    other = greenlet.greenlet(inside)
    deep(5, other.switch)
    same()
    other.switch()


for case in (
    depths,
    generators,
    coroutines,
    through_c,
    exceptions,
    with_the_lock_held,
    threads,
    same_places_are_one_stack,
    code_that_comes_and_goes,
    greenlets,
):
    case()


def child_of_a_fork():
    pid = os.fork()
    if pid == 0:
        same()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


child_of_a_fork()


# Daemon threads are in the middle of captures, and of new code, when the interpreter ends.
def until_the_end():
    number = 0
    while True:
        number += 1
        deep(1 + number % 50, library.capture_id)
        exec(compile("capture()", f"<{number}>", "exec"), {"capture": library.capture_id})


print(f"{sys.version.split()[0]}: depth 20 takes {deep(20, lambda: library.capture_ns(20000)):.0f} ns", flush=True)
for _ in range(4):
    threading.Thread(target=until_the_end, daemon=True).start()
time.sleep(0.1)
