"""Values in a form in which two routes' can be compared: with types, without what is different in every process."""

# Keys under which there is an address, a moment, or a thing that the process began with.
ADDRESSES = ("addr", "address")
MOMENTS = ("time_us",)


def normal(value):
    """The value as JSON has it, types included; addresses by their rank, moments by their type."""
    ranks = {addr: rank for rank, addr in enumerate(sorted(set(addresses(value))))}
    return plain(value, ranks)


def addresses(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ADDRESSES:
                yield inner
            else:
                yield from addresses(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from addresses(inner)


def plain(value, ranks):
    kind = type(value).__name__
    if isinstance(value, dict):
        if {"filename", "line", "name"} <= value.keys():
            return frame(value)
        return {f"{kind} {key!r}": entry(key, inner, value, ranks) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [kind, *(plain(inner, ranks) for inner in value)]
    if isinstance(value, (bool, int, float, str, type(None))):
        return [kind, value]
    return [kind]


def entry(key, inner, outer, ranks):
    if key in ADDRESSES:
        return ["address", ranks[inner]]
    if key in MOMENTS:
        assert isinstance(inner, int) and inner > 1_600_000_000_000_000, f"{key}={inner!r} is no unix time in us"
        return ["moment"]
    if key == "frames" and "blocks" in outer:
        # PyTorch loses a segment's stack when the segment is split.
        return ["stack"]
    return plain(inner, ranks)


def frame(value):
    """A frame, its keys checked; where files lie is of no interest."""
    return ["frame", sorted(value), value["name"], value["filename"].rpartition("/")[2], value["line"]]


def error_of(error):
    """An exception's type, as PyTorch names it, and the first line of what it says."""
    kind = type(error)
    lines = str(error).splitlines() or [""]
    return [f"{kind.__module__}.{kind.__name__}".replace("builtins.", ""), lines[0]]


def difference(one, other, path=""):
    """Where two normal forms differ first, or None."""
    if isinstance(one, dict) and isinstance(other, dict):
        missing, more = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
        if missing or more:
            return f"{path or 'the whole'}: keys missing {missing}, keys more {more}"
        pairs = [(f"{path}.{key.partition(' ')[2]}", one[key], other[key]) for key in one]
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"{path or 'the whole'}: {one!r:.300} against {other!r:.300}"
        pairs = [(f"{path}[{at}]", left, right) for at, (left, right) in enumerate(zip(one, other))]
    else:
        return None if one == other and type(one) is type(other) else f"{path}: {one!r} against {other!r}"
    return next((found for where, left, right in pairs if (found := difference(left, right, where))), None)
