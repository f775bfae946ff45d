"""Writes tests/data/pickles/values-N.pickle: one object in each pickle protocol, for the tests of our reader."""

import pathlib
import pickle

shared = {"name": "forward", "line": 7}
OBJECT = {
    "integers": [
        *(0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1),
        *(-1, -129, -(2**31), -(2**40)),
    ],
    "floats": [0.0, 1.5, -2.25e300],
    "constants": (True, False, None),
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "texts": ["", "a b", "caf\u00e9 \U0001f600 \\ ' \n", "x" * 300],
    "shared": [shared, shared],
    "many": list(range(2500)),
}

folder = pathlib.Path(__file__).parents[2] / "data" / "pickles"
for protocol in range(6):
    (folder / f"values-{protocol}.pickle").write_bytes(pickle.dumps(OBJECT, protocol=protocol))
