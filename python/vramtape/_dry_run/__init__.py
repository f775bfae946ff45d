"""``python -m vramtape dry-run``: a program on a simulated GPU, and the memory that it takes there.

``command`` reads the command line, ``job`` runs the program as ``vramtape run --sim`` does, ``process`` works inside
each of its processes, ``measure`` reads the tapes, ``verdict`` compares them with the GPU, and ``text`` prints.
"""
