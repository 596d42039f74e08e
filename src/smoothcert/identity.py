"""Who is this: a content hash of whatever an outsider brings, so that nothing of one is continued with another.

Hashed by value, recursively, the same in every process: code (bytecode and constants), closure cells, defaults and the
globals that a function reads, tensors and arrays, a module's layers, parameters, buffers, hooks, and all attributes. What a library defines is known by its name and version. What has no value that can be hashed (a
session, a socket, a generator) is refused; ``identity=`` is the way out, the user's own name for it.

It is no proof: what a function reads from files, the network, the clock or attributes of other modules is not seen.
"""

from __future__ import annotations

import builtins
import copy
import copyreg
import dataclasses
import functools
import hashlib
import inspect
import io
import json
import re
import sys
import sysconfig
import types
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from smoothcert.errors import SettingError
from smoothcert.registry import Plugin, name_of

LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
# Of a class: what says nothing about what it does.
NO_PART = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__abstractmethods__", "_abc_impl"),
    *("__firstlineno__", "__static_attributes__", "__annotate__", "__annotations_cache__", "__parameters__"),
    *("__orig_bases__", "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__qualname__"),
}
# Of a torch module: its mode is set before it votes, and these are torch's own books.
BOOKS = {
    *("training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_is_full_backward_hook"),
    *("_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks", "_compiled_call_impl"),
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_forward_hooks_always_called"),
    *("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs"),
}
PLACES = {"_name_or_path", "name_or_path", "_commit_hash"}  # where transformers found a model: no part of what it is
GUARDS = "_guards_fn"  # of an exported graph: it refuses inputs, and computes nothing
MANGLED = re.compile(rb"\.?___torch_mangle_\d+")  # of a name in TorchScript: how many of that name were there before


class Kept(ABC):
    """A wrapper around something without a value of its own (a session, a graph from a file), known by ``content``."""

    @abstractmethod
    def content(self) -> object:
        """All that decides what it does."""


def identity(thing: object, given: str | None = None) -> str:
    """64 hexadecimal digits: equal for things that do the same by the same means, or the user's own name as such.

    >>> def scaled(factor):
    ...     return lambda x: factor * x
    >>> identity(scaled(2.0)) == identity(scaled(2.0)), identity(scaled(2.0)) == identity(scaled(3.0))
    (True, False)
    >>> identity(open, given="my own reader")
    'named by its user: my own reader'
    """
    if given is not None:
        return f"named by its user: {given}"
    walk = _Walk()
    walk.take(thing, type(thing).__name__)
    return walk.digest.hexdigest()


def described(thing: Plugin) -> str:
    """A law, tuner or the like as a run's configuration says it: its text, and a hash where the text is not all.

    Of what is built in the text and smoothcert's version say it all, unless it stands for the content of files.
    """
    plain = type(thing).content is Plugin.content
    if _of_library(type(thing)) and plain:
        return str(thing)
    return f"{thing if plain else name_of(type(thing))} sha256:{identity(thing)}"


def name_for(facts: Mapping[str, Any]) -> str:
    """A short name for a configuration: the hash of all that it says.

    >>> name_for({"seed": 0}) == name_for({"seed": 0}) != name_for({"seed": 1})
    True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What two configurations do not share, in words.

    >>> differences({"seed": 0, "norm": 2}, {"seed": 1, "norm": 2})
    ['seed: 0 there, 1 here']
    """
    names = sorted({**there, **here})
    return [f"{n}: {there.get(n)} there, {here.get(n)} here" for n in names if there.get(n) != here.get(n)]


class _Walk:
    """One walk through a thing: each part is told by its kind, its length and its bytes, a part met again by its number."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.met: dict[int, int] = {}
        self.kept: list[object] = []  # so that no number is given to another object

    def write(self, kind: str, content: bytes = b"") -> None:
        self.digest.update(f"{kind} {len(content)}\n".encode())
        self.digest.update(content)

    def take(self, value: Any, path: str) -> None:
        """Hash one part; path says where it was found, for the message if it cannot be."""
        if value is None or value is Ellipsis or isinstance(value, bool | int | float | complex | str | bytes | Enum):
            self.write(type(value).__name__, repr(value).encode())
            _take_own(self, value, path)
            return
        if id(value) in self.met:
            self.write("again", str(self.met[id(value)]).encode())
            return
        self.met[id(value)] = len(self.met)
        self.kept.append(value)
        for kinds, handler in HANDLERS:
            if isinstance(value, kinds):
                handler(self, value, path)
                return
        torch = sys.modules.get("torch")
        if torch is not None and _take_torch(self, torch, value, path):
            return
        _take_object(self, value, path)

    def take_items(self, items: Mapping[str, Any], path: str) -> None:
        self.write("items", str(len(items)).encode())
        for name, value in sorted(items.items()):
            self.write("name", name.encode())
            self.take(value, f"{path}.{name}")


def _take_sequence(walk: _Walk, value: Any, path: str) -> None:
    walk.write(type(value).__name__, str(len(value)).encode())
    for at, part in enumerate(value):
        walk.take(part, f"{path}[{at}]")
    _take_own(walk, value, path)


def _take_unordered(walk: _Walk, value: Any, path: str) -> None:
    """A set or a mapping: its parts in the order of their own hashes."""
    pairs = value.items() if isinstance(value, Mapping) else ((part, None) for part in value)
    walk.write(type(value).__name__, str(len(value)).encode())
    for key, part in sorted(pairs, key=lambda pair: _key(pair[0])):
        walk.take(key, f"{path} key")
        walk.take(part, f"{path}[{key!r}]")
    _take_own(walk, value, path)


def _take_own(walk: _Walk, value: Any, path: str) -> None:
    """What a class of the user's own adds to a number, a list and the like."""
    if not (isinstance(value, Enum) or _of_library(type(value))):
        walk.take(type(value), path)
        walk.take_items(_attributes(value), path)


def _key(value: object) -> tuple[str, str]:
    plain = isinstance(value, str | int | float | bool | bytes | tuple | Enum)
    return type(value).__name__, repr(value) if plain else identity(value)


def _take_array(walk: _Walk, value: np.ndarray[Any, Any], path: str) -> None:
    if value.dtype == object:
        _take_sequence(walk, value.ravel().tolist(), path)
        return
    little = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"), copy=False))
    walk.write(f"array {little.dtype.str} {value.shape}", little.tobytes())


def _take_function(walk: _Walk, value: types.FunctionType, path: str) -> None:
    """A function by its code and all that it brought along; one of a library by its name and what it captured."""
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        walk.take(cell.cell_contents if _filled(cell) else "empty", f"{path} captured {name!r}")
    if _of_library(value):
        walk.write("library", _library_name(value).encode())
        return
    walk.write("function")
    walk.take(value.__code__, path)
    walk.take(value.__defaults__, f"{path} defaults")
    walk.take(value.__kwdefaults__, f"{path} defaults")
    read = {name: value.__globals__[name] for name in sorted(_globals(value.__code__)) if name in value.__globals__}
    walk.take_items(read | vars(value), f"{path} global")


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # not assigned yet
        return False


def _globals(code: types.CodeType) -> set[str]:
    """The names that code, and code inside it, may read from its module."""
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*map(_globals, inner))


def _take_code(walk: _Walk, code: types.CodeType, path: str) -> None:
    """Bytecode, constants and names; no line numbers, files or documentation."""
    documented = code.co_name != "<lambda>" and isinstance(next(iter(code.co_consts), None), str)
    walk.write("code", code.co_code)
    walk.take((code.co_argcount, code.co_kwonlyargcount, code.co_flags & ~inspect.CO_NESTED), path)
    walk.take(("", *code.co_consts[1:]) if documented else code.co_consts, f"{path} constants")
    walk.take((code.co_names, code.co_freevars, code.co_cellvars), path)


def _take_class(walk: _Walk, value: type, path: str) -> None:
    if _of_library(value):
        walk.write("library", _library_name(value).encode())
        return
    walk.write("class", value.__qualname__.encode())
    _take_sequence(walk, list(value.__bases__), f"{path} bases")
    parts = {name: part for name, part in value.__dict__.items() if name not in NO_PART}
    walk.take_items({name: _underlying(part) for name, part in parts.items()}, path)


def _underlying(part: Any) -> Any:
    """The functions behind a property and its like."""
    if isinstance(part, staticmethod | classmethod):
        return (type(part).__name__, part.__func__)
    if isinstance(part, property):
        return ("property", part.fget, part.fset, part.fdel)
    if isinstance(part, cached_property):
        return ("cached_property", part.func)
    return "slot" if isinstance(part, types.MemberDescriptorType | types.GetSetDescriptorType) else part


def _take_module(walk: _Walk, value: types.ModuleType, path: str) -> None:
    file = getattr(value, "__file__", None)
    if _of_library(value) or file is None:
        walk.write("library", _library_name(value).encode())
    else:
        walk.write("module", Path(file).read_bytes())


def _take_method(walk: _Walk, value: types.MethodType, path: str) -> None:
    walk.write("method")
    walk.take(value.__func__, path)
    walk.take(value.__self__, f"{path} of")


def _take_builtin(walk: _Walk, value: types.BuiltinFunctionType, path: str) -> None:
    walk.write("library", _library_name(value).encode())
    if not isinstance(value.__self__, types.ModuleType | type | None):
        walk.take(value.__self__, f"{path} of")


def _take_partial(walk: _Walk, value: functools.partial[Any], path: str) -> None:
    walk.write("partial")
    walk.take((value.func, value.args, dict(value.keywords)), path)
    _take_own(walk, value, path)


def _take_kept(walk: _Walk, value: Kept, path: str) -> None:
    walk.take(type(value), path)
    walk.take(value.content(), path)


def _take_plugin(walk: _Walk, value: Plugin, path: str) -> None:
    walk.take(type(value), path)
    if type(value).content is Plugin.content and not dataclasses.is_dataclass(value):
        walk.take_items(_attributes(value), path)
    else:
        walk.take(value.content(), path)


def _take_torch(walk: _Walk, torch: Any, value: Any, path: str) -> bool:
    """Tensors, modules and torch's own small values; was it one of them?"""
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        walk.write(f"tensor {value.dtype} {tuple(value.shape)}", flat.tobytes())
    elif isinstance(value, torch.dtype | torch.device | torch.Size | torch.layout | torch.memory_format):
        walk.write("torch", str(value).encode())
    elif isinstance(value, torch.nn.Module):
        _take_layers(walk, torch, value, path)
    else:
        return False
    return True


def _take_layers(walk: _Walk, torch: Any, module: Any, path: str) -> None:
    """A torch module: its class, what it computes with, and its layers in order."""
    if isinstance(module, torch.jit.ScriptModule):
        _take_script(walk, module)
        return
    if "_orig_mod" in module._modules and _of_library(type(module)):  # torch.compile
        walk.write("compiled")
        walk.take(module._modules["_orig_mod"], path)
        return
    if isinstance(module, torch.fx.GraphModule):  # its class is made anew for each; its code says what it does
        walk.write("graph", module.code.encode())
        read = {node.target for node in module.graph.nodes if node.op == "get_attr"}
        walk.take_items({name: attrgetter(name)(module) for name in read}, path)
    else:
        walk.take(type(module), path)
        hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
        walk.take(hooks, f"{path} hooks")
        left_out = {*BOOKS, "_forward_hooks", "_forward_pre_hooks"}
        attributes = _attributes(module)
        walk.take_items({name: part for name, part in attributes.items() if name not in left_out}, path)
    for books in (module._parameters, module._buffers):
        walk.take_items({name: part for name, part in books.items() if part is not None}, path)
    for name, layer in module._modules.items():
        if name == GUARDS:
            continue
        walk.write("layer", name.encode())
        walk.take(layer, f"{path}.{name}")


def _take_script(walk: _Walk, module: Any) -> None:
    """TorchScript by the file that it makes: code, attributes and constants, and neither its mode nor where it was written."""
    with zipfile.ZipFile(io.BytesIO(copy.deepcopy(module).eval().save_to_buffer())) as archive:
        for name in sorted(archive.namelist()):
            if Path(name).suffix in (".py", ".pkl"):
                walk.write("script", MANGLED.sub(b"", archive.read(name)))
            elif Path(name).parent.name in ("data", "constants"):
                walk.write("array", archive.read(name))


def _take_object(walk: _Walk, value: Any, path: str) -> None:
    """Anything else: a wrapper by what it wraps, else by its attributes, or by the parts that a copy is made from."""
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is not None:
        walk.take((type(value), wrapped), path)
        walk.take_items({name: part for name, part in _attributes(value).items() if name not in NO_PART}, path)
        return
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        parts = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except Exception:
        raise SettingError(
            f"{path} is a {name_of(type(value))}, which cannot be known by its value, so a run with it could be continued "
            "with another unnoticed; give a name of your own for the whole: identity='…' (--set model.identity=…), "
            "and a new one whenever it changes"
        ) from None
    kind: Any = type(value)
    walk.take(kind, path)
    if kind.__reduce_ex__ is object.__reduce_ex__ and parts[0] is copyreg.__dict__["__newobj__"]:
        walk.take_items(_attributes(value), path)
    else:
        told = (
            (parts,)
            if isinstance(parts, str)
            else (part if n < 3 else list(part or ()) for n, part in enumerate(parts))
        )
        walk.take(tuple(told), path)


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes that were set, all but what properties keep for later; of a library's dataclass its fields alone."""
    if dataclasses.is_dataclass(value) and _of_library(type(value)):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    kept = {
        name for kind in type(value).__mro__ for name, part in vars(kind).items() if isinstance(part, cached_property)
    }
    slots = {name: getattr(value, name) for name in _slots(type(value)) if name in dir(value)}
    return slots | {name: part for name, part in getattr(value, "__dict__", {}).items() if name not in kept | PLACES}


def _slots(kind: type) -> Iterator[str]:
    for each in kind.__mro__:
        names = each.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            private = name.startswith("__") and not name.endswith("__")
            yield f"_{each.__name__.lstrip('_')}{name}" if private else name


def _of_library(value: Any) -> bool:
    """Is it defined by Python, by an installed package or by smoothcert, whose versions a run records?"""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or "builtins"
    return _library_module(name)


@cache
def _library_module(name: str) -> bool:
    top = name.partition(".")[0]
    if top == "__main__":  # whoever was started: what it defines is the user's, also where a library started it
        return False
    if top in sys.stdlib_module_names or top in ("smoothcert", builtins.__name__):
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and any(PurePath(file).is_relative_to(place) for place in LIBRARIES)


def _library_name(value: Any) -> str:
    """Where a library defines it, and which version of the library."""
    if isinstance(value, types.ModuleType):
        return f"{value.__name__} {version_of(value.__name__)}"
    home = getattr(value, "__module__", None) or "builtins"
    return f"{home}.{getattr(value, '__qualname__', repr(value))} {version_of(home)}"


@cache
def version_of(module: str) -> str:
    """Of the library that a module is of; empty if it is of none."""
    try:
        return version(module.partition(".")[0])
    except PackageNotFoundError:
        return ""


Handler = Callable[[_Walk, Any, str], None]
HANDLERS: tuple[tuple[Any, Handler], ...] = (
    (Kept, _take_kept),
    (Plugin, _take_plugin),
    ((tuple, list, range), _take_sequence),
    ((set, frozenset, dict, types.MappingProxyType), _take_unordered),
    (np.ndarray, _take_array),
    (np.generic, lambda walk, value, path: _take_array(walk, np.asarray(value), path)),
    (np.dtype, lambda walk, value, path: walk.write("dtype", str(value).encode())),
    (PurePath, lambda walk, value, path: walk.write("path", str(value).encode())),
    (types.FunctionType, _take_function),
    (types.CodeType, _take_code),
    (type, _take_class),
    (types.ModuleType, _take_module),
    (types.MethodType, _take_method),
    (types.BuiltinFunctionType, _take_builtin),
    (functools.partial, _take_partial),
)
