"""Packs what a fuzzer found into one file, and unpacks it again for it to go on from.

    python replay/fuzz/corpus.py pack FOLDER tests/data/corpus/KIND.gz
    python replay/fuzz/corpus.py unpack tests/data/corpus/KIND.gz FOLDER

A packed file is the inputs one after another, each behind its length in four bytes, under gzip.
"""

import gzip
import pathlib
import struct
import sys


def pack(folder, packed):
    inputs = sorted(path.read_bytes() for path in folder.iterdir())
    data = b"".join(struct.pack("<I", len(one)) + one for one in inputs)
    packed.write_bytes(gzip.compress(data, mtime=0))


def unpack(packed, folder):
    folder.mkdir(parents=True, exist_ok=True)
    data, number = gzip.decompress(packed.read_bytes()), 0
    while data:
        (length,) = struct.unpack_from("<I", data)
        (folder / f"{number:05}").write_bytes(data[4 : 4 + length])
        data, number = data[4 + length :], number + 1


verb, source, target = sys.argv[1:]
{"pack": pack, "unpack": unpack}[verb](pathlib.Path(source), pathlib.Path(target))
