"""Values for programs of a dry run, whose device memory has no content (docs/values.md).

``contents`` keeps what is known of small tensors on the host. ``table`` lists the operators; ``hooks`` hooks them.
``compute``, ``uniform`` and ``draws`` have the contents of results, ``reads`` answers reads, and ``shapes`` sizes
results such as those of ``nonzero``. ``guesses`` counts everything that was not computed. ``level``
has the user's choice.
"""
