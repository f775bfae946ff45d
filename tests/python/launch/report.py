"""Prints how it was started and ends as its argument says: `vramtape run` must change neither."""

import os
import signal
import sys

how = sys.argv[1] if len(sys.argv) > 1 else ""
print(sys.argv, __name__, __spec__ is None, sys.path, sys.flags, sys.warnoptions, sys.stdout.write_through)
print([signal.getsignal(one) for one in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ)])
sys.stdout.flush()
if how == "raise":
    raise ValueError("as the program says")
if how == "exit":
    sys.exit(3)
if how == "interrupt":
    signal.raise_signal(signal.SIGINT)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "read":
    print(sys.stdin.read())
