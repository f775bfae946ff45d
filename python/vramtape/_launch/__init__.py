"""``python -m vramtape run`` and ``record``: a program under vramtape, without a change to it.

``run`` changes the environment and becomes the program: same process, arguments, signals and exit code. Through
``PYTHONPATH`` every Python among it and its children runs ``hook/sitecustomize.py``, which waits for the first import
of torch; ``attach`` then installs vramtape. The first of these processes prints the tapes' paths at its end.
"""
