"""``from_pretrained`` of transformers and diffusers where a model has a configuration, and no weights.

The library makes the model on the meta device and saves it as a hollow checkpoint, with its own names of weights. Then
it loads this as it loads any checkpoint, so that the allocations are those of the real one.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import torch

from .. import _text
from . import hollow, notes
from .after_import import after_import

_CONFIG = "config.json"
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.gguf", "*.msgpack", "*.h5")
# As usual. Linux refuses to map a file that is larger than the memory of the machine.
_SHARD = "5GB"
# Of checkpoints whose files have a variant in their names.
_VARIANTS = {"fp16": torch.float16, "bf16": torch.bfloat16}


def begin(folder: Path) -> None:
    """Makes hollow checkpoints in ``folder``, which the dry run removes at its end."""
    after_import("transformers.modeling_utils", lambda module: _wrap(module.PreTrainedModel, _transformer, folder))
    after_import("diffusers.models.modeling_utils", lambda module: _wrap(module.ModelMixin, _diffuser, folder))


def _wrap(base: Any, make: Callable[..., Optional[torch.nn.Module]], folder: Path) -> None:
    original = base.from_pretrained.__func__

    @functools.wraps(original)
    def from_pretrained(cls: Any, name: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return original(cls, name, *arguments, **named)
        except OSError:
            made = _checkpoint(cls, name, named, make, folder)
            if made is None:
                raise
        named.pop("subfolder", None)
        return original(cls, made, *arguments, **named)

    base.from_pretrained = classmethod(from_pretrained)


def _checkpoint(cls: Any, name: Any, named: dict[str, Any], make: Any, folder: Path) -> Optional[str]:
    """The folder of a hollow checkpoint; None where weights are not all that is missing."""
    source = _source(name, named)
    if source is None:
        return None
    try:
        model = make(cls, source, named)
        if model is None:
            return None
        folder.mkdir(exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f"{source.name}-", dir=folder))
        with hollow_files():
            model.save_pretrained(made, variant=named.get("variant"), max_shard_size=_SHARD)
    except Exception as error:
        _text.say(f"{name} has no weights, and its {_CONFIG} does not make a model: {type(error).__name__}: {error}")
        return None
    size_bytes = sum(map(hollow.file_data_bytes, made.glob("*.safetensors")))
    for file in source.iterdir():  # The program's own files, with its own configuration.
        if file.is_file():
            (made / file.name).unlink(missing_ok=True)
            (made / file.name).symlink_to(file.resolve())
    notes.note(str(name), _CONFIG, size_bytes)
    return str(made)


def _source(name: Any, named: dict[str, Any]) -> Optional[Path]:
    """The folder that has the configuration, if it has no weights: the user's, or that of the hub's cache."""
    inside = named.get("subfolder") or ""
    if os.path.isdir(name):
        folder = Path(name, inside)
    else:
        from huggingface_hub import try_to_load_from_cache

        file = os.path.join(inside, _CONFIG)
        cached = try_to_load_from_cache(str(name), file, named.get("cache_dir"), named.get("revision"))
        if not isinstance(cached, str):
            return None
        folder = Path(cached).parent
    has_weights = any(next(folder.glob(pattern), None) for pattern in _WEIGHTS)
    return folder if (folder / _CONFIG).is_file() and not has_weights else None


def _transformer(cls: Any, source: Path, named: dict[str, Any]) -> Optional[torch.nn.Module]:
    config = named.get("config")
    config = cls.config_class.from_pretrained(source) if not hasattr(config, "to_dict") else copy.deepcopy(config)
    if getattr(config, "quantization_config", None) is not None:
        return None  # The checkpoint's weights are not the model's.
    dtype = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    with _meta(_VARIANTS.get(named.get("variant") or "", dtype)):
        model: torch.nn.Module = cls(config)
    return model


def _diffuser(cls: Any, source: Path, named: dict[str, Any]) -> Optional[torch.nn.Module]:
    config = cls.load_config(source)
    if config.get("quantization_config"):
        return None
    with _meta(_VARIANTS.get(named.get("variant") or "")):
        model: torch.nn.Module = cls.from_config(config)
    return model


@contextmanager
def _meta(dtype: Any) -> Iterator[None]:
    """Tensors have no memory, and this type, or float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype) if isinstance(dtype, str) else dtype or torch.float32)
    try:
        with torch.device("meta"):
            yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def hollow_files() -> Iterator[None]:
    """safetensors writes hollow files."""
    import safetensors.torch

    places: list[tuple[ModuleType, str]] = [(safetensors.torch, "save_file")]
    if "transformers.modeling_utils" in sys.modules:
        places.append((sys.modules["transformers.modeling_utils"], "safe_save_file"))
    before = [(module, name, getattr(module, name)) for module, name in places]
    for module, name in places:
        setattr(module, name, hollow.save_file)
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)
