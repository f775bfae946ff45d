"""Values for programs on the simulated driver, whose device memory has no content (docs/values.md).

``contents`` keeps the content of small tensors that is known on the host, ``compute`` carries it through operators,
``guesses`` answers and counts reads of everything else, and ``operators`` hooks the operators of PyTorch.
"""
