"""vramtape from Python: the replay lab.

>>> import vramtape
>>> vramtape.replay("run.vtape", config="expandable_segments:True")["peak_reserved_bytes"]

Every function asks about a run by its path and returns what the command's ``--json`` prints, as a plain dict. None
keeps anything: they can be pickled and mapped over many runs, by ``multiprocessing``, Ray or Dask. While one works,
Python's lock is free, so several threads may ask at once.
"""

from ._ask import Error
from ._lab import compare, fit, info, replay, tune, waste

__all__ = ["Error", "compare", "fit", "info", "replay", "tune", "waste"]
