"""Operators whose result has a size that depends on values.

Their kernels have sized it from a content of zeros. Where values are known, the result is exact; else its size is
guessed between a lower and an upper bound, and counted.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from .compute import compute
from .contents import KNOWN_MAX_BYTES, Content, contents, element, is_on_device
from .guesses import guesses, share
from .uniform import spread

# Repeats that are not known, at the levels of guesses.
_REPEATS = {"low": 0, "likely": 1, "high": 2}


def _nonzero(operator: Any, name: str, arguments: Any, named: dict[str, Any], _: Any) -> torch.Tensor:
    """The places of a mask; without an upper bound of its own, all of them."""
    (mask,) = arguments
    most, content = mask.numel(), contents.find(mask)
    computed = compute(operator, arguments, named)
    is_guess = content is None or content.is_guess
    likely = len(computed[0]) if computed is not None else share(most, _density(content, mask))
    count = guesses.elements(most, likely) if is_guess else likely
    made = torch.empty((count, mask.dim()), dtype=torch.int64, device=mask.device)
    if is_guess:
        guesses.note_shape(name, made, most * mask.dim() * made.element_size())
    if computed is not None and count == likely:
        contents.set_values(made, computed[0], is_guess)
    elif 0 < made.nbytes <= KNOWN_MAX_BYTES:
        places = torch.arange(count, device="cpu") * most // count
        contents.set_values(made, torch.stack(torch.unravel_index(places, mask.shape), 1), is_guess)
    return made


def _density(content: Optional[Content], mask: torch.Tensor) -> float:
    """The share of a mask that is not zero. A mask of which nothing is known is full."""
    known = element(mask, content)
    if known is not None:
        return float(bool(known))
    if content is None or content.density is None:
        return 1.0
    return content.density


def note_masked(arguments: Any, result: torch.Tensor) -> None:
    """Counts a result of indexing by a mask of which nothing is certain: ``nonzero`` has sized it."""
    masks = [one for one in arguments[1] if is_on_device(one) and one.dtype in (torch.bool, torch.uint8)]
    for mask in masks:
        content = contents.find(mask)
        if content is None or content.is_guess:
            rows = arguments[0].numel() // max(1, mask.numel())
            guesses.note_shape("index", result, mask.numel() * rows * result.element_size())
            return


def _binned(operator: Any, name: str, arguments: Any, named: dict[str, Any], result: Any) -> torch.Tensor:
    """As many bins as the largest element needs, and as are wanted at least."""
    elements, *_ = arguments
    minlength = arguments[2] if len(arguments) > 2 else named.get("minlength", 0)
    content = contents.find(elements)
    computed = compute(operator, arguments, named)
    is_guess = content is None or content.is_guess
    counts = None
    if computed is not None:
        counts = computed[0]
    elif content is not None and content.classes is not None:
        counts = spread(elements.numel(), max(minlength, content.classes))
    known = element(elements, content)
    size = max(minlength, 1 if known is None else int(known) + 1) if counts is None else len(counts)
    made = torch.empty(size, dtype=result.dtype, device=elements.device)
    if counts is not None:
        contents.set_values(made, counts, is_guess)
    if is_guess and size != minlength:
        guesses.note_shape(name, made, made.nbytes, minlength * made.element_size())
    return made


def _unique(operator: Any, name: str, arguments: Any, named: dict[str, Any], result: Any) -> Any:
    """The distinct elements: at least one, and all where nothing is known; then the inverse and the counts."""
    elements, name = arguments[0], name.lstrip("_")
    computed = compute(operator, arguments, named)
    if computed is not None and not computed[1]:
        made = [torch.empty(one.shape, dtype=one.dtype, device=elements.device) for one in computed[0]]
        for one, host in zip(made, computed[0]):
            contents.set_values(one, host)
        return tuple(made)
    given = dict(zip((kind.name for kind in operator._schema.arguments), arguments))
    given.update(named)
    dim = given.get("dim")
    shape = list(elements.shape) if dim is not None else [elements.numel()]
    at = dim % len(shape) if dim is not None else 0
    most = shape[at]
    shape[at] = min(most, max(1, guesses.elements(most, most)))
    made = [torch.empty(shape, dtype=elements.dtype, device=elements.device)]
    for flag, size in (("return_inverse", elements.shape if dim is None else [most]), ("return_counts", [shape[at]])):
        size = size if given.get(flag, False) else [0]
        made.append(torch.empty(size, dtype=torch.int64, device=elements.device))
    row_bytes = elements.numel() * elements.element_size() // max(1, most)
    guesses.note_shape(name, made[0], most * row_bytes, row_bytes)
    return tuple(made[: len(result)])


def _repeated(operator: Any, name: str, arguments: Any, named: dict[str, Any], result: Any) -> Optional[torch.Tensor]:
    """As many elements as the sum of the repeats."""
    (repeats,) = arguments
    if named.get("output_size") is not None:
        return None  # The program knows it.
    content = contents.find(repeats)
    computed = compute(operator, arguments, named)
    is_guess = content is None or content.is_guess
    known = element(repeats, content)
    if computed is not None:
        size = len(computed[0])
    else:
        size = repeats.numel() * (_REPEATS[guesses.level] if known is None else int(known))
    made = torch.empty(size, dtype=result.dtype, device=repeats.device)
    if computed is not None:
        contents.set_values(made, computed[0], is_guess)
    if is_guess:
        guesses.note_shape(name, made, repeats.numel() * _REPEATS["high"] * made.element_size())
    return made


def _coalesced(_: Any, name: str, arguments: Any, __: dict[str, Any], ___: Any) -> Optional[torch.Tensor]:
    """The entries of a sparse tensor at distinct places: at least one, and all where nothing is known."""
    (given,) = arguments
    most, elements = given._nnz(), given._values()
    if most < 2:
        return None
    count = max(1, guesses.elements(most, most))
    made = torch.empty((count, *elements.shape[1:]), dtype=elements.dtype, device=elements.device)
    places = torch.empty((given.sparse_dim(), count), dtype=torch.int64, device=elements.device)
    guesses.note_shape(name.lstrip("_"), made, elements.nbytes, elements.nbytes // most)
    coalesced: torch.Tensor = torch.sparse_coo_tensor(
        places, made, given.shape, is_coalesced=True, check_invariants=False
    )
    return coalesced


_UNIQUE = ("_unique2", "unique_dim", "unique_consecutive")
_MODELS = {
    "nonzero": _nonzero,
    "bincount": _binned,
    "repeat_interleave": _repeated,
    "_coalesce": _coalesced,
    **dict.fromkeys(_UNIQUE, _unique),
}


def size(operator: Any, name: str, arguments: Any, named: dict[str, Any], result: Any) -> Any:
    """The result of one of ``table.SIZED`` in its size; None where that of the kernel is right."""
    return _MODELS[name](operator, name, arguments, named, result)
