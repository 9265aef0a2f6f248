"""`Module` and `Parameter`: named trees of variables, with state dicts in PyTorch's names and layouts.

A module's attributes are ordinary ones.  Nacre finds the variables and modules among them, in the order in which they
were set.  Modules are trees (`base.tree`) with variables as leaves, and other attributes as the structure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from nacre.api.foreign import array_of
from nacre.api.namespace import PUBLIC
from nacre.api.operands import TensorLike, as_tensor, requested_dtype
from nacre.api.tensor import Tensor
from nacre.base.conversion import unchanged
from nacre.base.dtypes import DType, as_dtype
from nacre.base.errors import ArgumentError, DTypeError, Error, KindError, ShapeError, explain
from nacre.base.exact import Same, exact_key
from nacre.base.hints import listed, mark_absent
from nacre.base.porting.advice import CPU, DEVICES
from nacre.base.porting.methods import MODULE
from nacre.base.state import STATE
from nacre.base.tree import register
from nacre.interpret.called import user_line
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.tape import require_no_record
from nacre.nn.hooks import WithHooks, hooked
from nacre.nn.parameter import Buffer as Buffer
from nacre.nn.parameter import ModuleVariable as ModuleVariable
from nacre.nn.parameter import Parameter as Parameter
from nacre.nn.place import note_place
from nacre.trace.function_types import Computation, P, R
from nacre.trace.guards import keep, report, stands_for
from nacre.trace.traced import find_traced
from nacre.trace.value import Value, is_concrete, stripped
from nacre.trace.variable import Variable, scope

__all__ = ["Module"]

Self = TypeVar("Self", bound="Module")


class IncompatibleKeys(NamedTuple):
    """The names that a state dict lacks, and the names that the module does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module(WithHooks):
    """A function with parameters: set parameters and modules as attributes, and define `forward`.

    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         self.factor = nn.Parameter(2.0)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(nc.tensor([1.0, 2.0]))
    Tensor([2., 4.], f32[2], requires_grad=True)

    A parameter or buffer stays one: `self.factor -= x` inside `no_grad` and `self.factor.data = x` change its
    contents; a tensor assigned to a buffer becomes its contents, and one assigned to a parameter raises DTypeError.
    """

    training: bool = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module; every subclass defines it."""
        raise ArgumentError(
            explain(
                f"{type(self).__name__}: a method `forward` is required",
                f"class {type(self).__name__}(nn.Module):\n    def __call__(self, x): ...",
                "Calling a module records what a compiled function depends on, and then calls `forward`.",
                f"class {type(self).__name__}(nn.Module):\n    def forward(self, x): ...",
            )
        )

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if STATE.word:
            report(self, "fingerprint")
        try:
            return hooked(self, self._hooks, args, kwargs) if self._hooks else self.forward(*args, **kwargs)
        except Exception as fault:
            note_place(fault, self)
            raise

    if TYPE_CHECKING:

        def __call__(self: Computation[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    else:
        __call__ = _call

    def __setattr__(self, name: str, value: Any) -> None:
        held = vars(self).get(name)
        if isinstance(held, Variable | Module) or name in METHODS or name == "requires_grad":
            if held is value and held is not None:  # the assignment at the end of `self.weight -= x`
                return
            value = assigned(self, name, held, value)
            if value is held:
                return
        if isinstance(value, Variable) and not value.name:
            value.name = name
        if STATE.word and find_traced(value) is not None:
            keep(self, name, user_line(), held)
        object.__setattr__(self, name, value)
        vars(self).pop(FINGERPRINT, None)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        vars(self).pop(FINGERPRINT, None)

    def __dir__(self) -> list[str]:
        return listed(self)

    @property
    def fingerprint(self) -> Hashable:
        """The state that compiled functions of this module depend on: attributes by value, contents by identity.

        It is cached until an attribute is set; a list or dict that is changed in place goes unnoticed.
        """
        found = vars(self).get(FINGERPRINT)
        if found is None:
            held = _attributes(self)
            plain = ((k, frozen(v)) for k, v in {"training": self.training, **held}.items())
            found = Fingerprint((*plain, ("__class__", Same(type(self)))))
            vars(self)[FINGERPRINT] = found
            now = _attributes(self)
            if now.keys() != held.keys() or any(now[k] is not v for k, v in held.items()):
                vars(self).pop(FINGERPRINT, None)  # another thread has set one meanwhile
        return found

    def __getstate__(self) -> dict[str, Any]:
        return _attributes(self)

    # ---- contents

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, with their names."""
        report(self, "fingerprint")
        return ((k, v) for k, v in _attributes(self).items() if isinstance(v, Module))

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names."""
        yield from _walk(self, prefix, set())

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def _named(self, kind: type[Variable], prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, value, variable in _held(module, kind):
                if variable not in seen:
                    seen.add(variable)
                    yield _join(path, name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters, each once, with dotted names.

        For a gradient, which is a module too (`nc.grad`): the tensors in the place of the parameters, under the same
        names.  A parameter that is not differentiated has None.
        """
        return self._named(Parameter, prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Buffer]]:
        """The buffers, each once, with dotted names."""
        return self._named(Buffer, prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Buffer]:
        """The buffers, each once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def register_parameter(self, name: str, value: Parameter | None) -> None:
        """Set an attribute to a parameter, or to None."""
        setattr(self, name, value)

    def register_module(self, name: str, module: Module | None) -> None:
        """Set an attribute to a module, or to None."""
        setattr(self, name, module)

    add_module = register_module

    def get_submodule(self, target: str) -> Module:
        """The module with a dotted name; raises ArgumentError if there is none.

        >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU()).get_submodule("1")
        ReLU()
        """
        found: Any = self
        for name in target.split(".") if target else ():
            found = vars(found).get(name)
            if not isinstance(found, Module):
                raise ArgumentError(f"get_submodule: the name of a module is required; got {target!r}")
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with a dotted name; raises ArgumentError if there is none."""
        return self._get(target, Parameter, "get_parameter")

    def get_buffer(self, target: str) -> Buffer:
        """The buffer with a dotted name; raises ArgumentError if there is none."""
        return self._get(target, Buffer, "get_buffer")

    def _get(self, target: str, kind: type[Any], operation: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        held = {k: value for k, value, _ in _held(module, kind)}
        if name not in held:
            raise ArgumentError(f"{operation}: the name of a {kind.__name__.lower()} is required; got {target!r}")
        return held[name]

    def register_buffer(self, name: str, value: TensorLike, persistent: bool = True) -> None:
        """Set an attribute to a buffer with a value; a buffer that is not persistent is left out of state dicts."""
        vars(self).pop(name, None)
        setattr(self, name, Buffer(value, persistent))

    # ---- changes

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode here and below (dropout is active, batch norm uses the batch).  Returns the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Set evaluation mode here and below.  Returns the module."""
        return self.train(False)

    def requires_grad_(self: Self, required: bool = True) -> Self:
        """Train the parameters, or freeze them.  Returns the module."""
        for p in _variables("requires_grad_", self.parameters()):
            p.requires_grad_(required)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the parameters' gradients, or set them to zero."""
        for p in _variables("zero_grad", self.parameters()):
            p.gradient = None if set_to_none or p.gradient is None else PUBLIC["zeros_like"](p.gradient)

    def apply(self: Self, f: Callable[[Module], Any]) -> Self:
        """Call f on every module below and then on this one.  Returns the module."""
        for child in self.children():
            child.apply(f)
        f(self)
        return self

    def to(self: Self, dtype: Any) -> Self:
        """Convert the floating-point parameters and buffers to a dtype.  Returns the module.

        Raises DTypeError for a dtype that is not floating-point, and KindError for a device.
        """
        if str(dtype).partition(":")[0] in DEVICES:
            raise KindError(f"to: the argument must be a dtype; got the device {dtype!s}. {CPU}")
        found = as_dtype(dtype)
        if not found.is_float:
            raise DTypeError(f"to: the dtype must be floating-point; got {found.name}")
        for variable in _variables("to", (*self.parameters(), *self.buffers())):
            if variable.dtype.is_float and variable.dtype is not requested_dtype("to", dtype, variable):
                variable.cell = stripped(as_tensor(stripped(variable.cell), found))
                variable.gradient_cell = None
        return self

    def float(self: Self) -> Self:
        """`to(float32)`.  Returns the module."""
        return self.to("float32")

    def double(self: Self) -> Self:
        """`to(float64)`.  Returns the module."""
        return self.to("float64")

    def half(self: Self) -> Self:
        """`to(float16)`.  Returns the module."""
        return self.to("float16")

    def bfloat16(self: Self) -> Self:
        """`to(bfloat16)`.  Returns the module."""
        return self.to("bfloat16")

    # ---- state dicts

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """The tensors of parameters and persistent buffers by dotted name, in PyTorch's names and layouts.

        `prefix` comes before each name, with a dot between them.

        >>> {k: v.shape for k, v in nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        found = (
            (k, v if isinstance(v, Value) else v.data)
            for k, v in _stateful(self, prefix.removesuffix("."))
            if v is not None
        )
        return {k: cast("Tensor", v) for k, v in found}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Load tensors or arrays by dotted name; returns the missing and the unexpected names.

        With `strict`, the default, such names raise ArgumentError.  Raises ArgumentError for anything that is not a
        dict and for two values of one shared parameter, ShapeError for wrong shapes.  Then nothing is changed.
        """
        require_mapping(state)
        own = dict(_stateful(self, ""))
        missing, unexpected = [k for k in own if k not in state], [k for k in state if k not in own]
        if strict and (missing or unexpected):
            raise ArgumentError(
                f"load_state_dict: the state must have the names of {type(self).__name__}; missing {missing}, "
                f"unexpected {unexpected}; pass strict=False to load what fits"
            )
        found = {k: _contents(k, state[k], own[k].dtype) for k in own if k in state}
        wrong = [
            f"{k}: {list(own[k].shape)}, got {list(v.type.shape)}"
            for k, v in found.items()
            if v.type.shape != own[k].shape
        ]
        if wrong:
            raise ShapeError(f"load_state_dict: shapes must match: {'; '.join(wrong)}")
        _require_one_value(own, found)
        for k, v in found.items():
            own[k].assign(v)
        return IncompatibleKeys(missing, unexpected)

    # ---- as text

    def extra_repr(self) -> str:
        """The text between the parentheses of a module without inner modules."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        inner = ([extra] if extra else []) + lines
        return f"{type(self).__name__}(\n  " + "\n  ".join(inner) + "\n)"


mark_absent(Module, MODULE)
METHODS = frozenset(
    name
    for cls in (WithHooks, Module)
    for name, held in vars(cls).items()
    if callable(held) and not name.startswith("_")
)


def assigned(module: Module, name: str, held: Any, value: Any) -> Any:
    """The new value of an attribute that holds a variable, a module or a method.

    Arrays and tensors go into a buffer.  Raises DTypeError if state would be lost.
    """
    full = f"{type(module).__name__}.{name}"
    if isinstance(held, Buffer) and isinstance(value, Value | np.ndarray):
        x = as_tensor(value)
        require_no_record(full, held, x)
        if x.type is not held.type and scope() is None:
            return Buffer(x, held.persistent)
        held.assign(x)
        return held
    if name == "requires_grad" and not hasattr(type(module), name):
        raise DTypeError(
            f"{full}: parameters require gradients, modules do not; write "
            f"`module.requires_grad_({value if isinstance(value, bool) else ''})`"
        )
    if not isinstance(held, Variable | Module):
        if callable(value) or not callable(getattr(type(module), name, None)):
            return value
        raise DTypeError(
            f"{full}: a method can only be replaced by a function; got {value!r}; call it, as in "
            f"`module.{name}({'' if value is True else repr(value)})`, or choose another name"
        )
    if value is None or isinstance(value, Variable | Module):
        return value
    kind = next(k.__name__ for k in (Parameter, Buffer, Variable, Module) if k in type(held).__mro__)
    how = (
        f"assign to its data, as in `module.{name}.data = x`, or `del module.{name}` first"
        if isinstance(held, Variable)
        else f"`del module.{name}` first"
    )
    raise DTypeError(
        f"{full}: a {kind.lower()} can only be replaced by a {kind.lower()} or None; got {type(value).__name__}; {how}"
    )


def settings(module: Module) -> str:
    """A module's plain attributes, for `extra_repr`."""
    plain = ((k, v) for k, v in _attributes(module).items() if not isinstance(v, Variable | Module))
    return ", ".join(f"{k}={v!r}" for k, v in plain if k != "training" and not k.startswith((" ", "_")))


def require_mapping(state: object) -> None:
    """Raise ArgumentError for anything that is not a state dict, such as the path of one."""
    if not isinstance(state, Mapping):
        given: object = state
        how = f"pass nc.load({str(given)!r})" if isinstance(state, str | os.PathLike) else "pass what state_dict gave"
        raise ArgumentError(
            f"load_state_dict: the state must be a dict of tensors or arrays by name; got {given!r:.60}; {how}"
        )


def _contents(name: str, value: Any, dtype: DType) -> Any:
    """The value of a state dict for a variable, in its dtype; integers that the conversion would change are refused."""
    held = as_tensor(array_of(value))
    if not dtype.is_float and is_concrete(held):
        unchanged(to_numpy(held), dtype, f"load_state_dict: {name}")
    return as_tensor(held, dtype)


def _require_one_value(own: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise unless all names of a shared variable have the same value in a state dict."""
    first: dict[int, str] = {}
    for name, value in found.items():
        before = first.setdefault(id(own[name]), name)
        values = (found[before], value)
        if before == name or not all(map(is_concrete, values)):
            continue
        one, other = (to_numpy(v).tobytes() for v in values)
        if one != other:
            raise ArgumentError(
                f"load_state_dict: the names of a shared parameter must have one value; {before} and {name} are one "
                f"parameter and got two; leave one of them out, with strict=False"
            )


def _attributes(module: Module) -> dict[str, Any]:
    """A copy of a module's attributes, safe from changes by other threads."""
    held = vars(module).copy()
    held.pop(FINGERPRINT, None)
    return held


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _walk(module: Module, path: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name, child in module.named_children():
        yield from _walk(child, _join(path, name), seen)


def _held(module: Module, kind: type[Variable]) -> Iterator[tuple[str, Any, int]]:
    """The variables of a kind that are attributes of a module, or the values in place of them, and their numbers."""
    held = _attributes(module)
    frame: Frame | None = held.get(REBUILT)
    replaced = {} if frame is None else frame.variables
    for name, value in held.items():
        if isinstance(value, kind):
            yield name, value, value.number
        elif name in replaced and issubclass(replaced[name][0], kind) and isinstance(value, Value | None):
            yield name, value, replaced[name][1]


def _variables(operation: str, found: Iterable[Any]) -> Iterator[Any]:
    """Variables that can be changed; raises an error if a module has tensors in place of them, as a gradient does."""
    for x in found:
        if not isinstance(x, Variable):
            raise ArgumentError(
                f"{operation}: the module must hold parameters; got one with tensors or None in their places, such as "
                "a gradient; map over its leaves instead"
            )
        yield x


def _stateful(module: Module, path: str) -> Iterator[tuple[str, Any]]:
    """Parameters and persistent buffers under every name they have, as state dicts list them."""
    for kind in (Parameter, Buffer):
        for name, value, _ in _held(module, kind):
            if getattr(value, "persistent", True):
                yield _join(path, name), value
    for name, child in module.named_children():
        yield from _stateful(child, _join(path, name))


# ---- the state that a compiled function depends on


FINGERPRINT = " fingerprint"  # the key in a module's attributes; no attribute is named so
REBUILT = " rebuilt"  # the same for a module that was rebuilt with values in place of its variables


class Fingerprint(tuple[tuple[str, Hashable], ...]):
    """Names and frozen values; values that are compared by identity are not shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (f"{k}={v!r}" for k, v in self if not isinstance(v, Same))
        return f"({', '.join(shown)})"


def frozen(value: Any) -> Hashable:
    """A value to compare: lists and dicts by their items, other mutable objects by identity."""
    if isinstance(value, list | tuple):
        return tuple(frozen(v) for v in cast("Sequence[Any]", value))
    if isinstance(value, Mapping):
        return "dict", tuple((frozen(k), frozen(v)) for k, v in cast("Mapping[Any, Any]", value).items())
    if isinstance(value, set | frozenset):
        return "set", frozenset(frozen(v) for v in cast("frozenset[Any]", value))
    if isinstance(value, Value | np.ndarray | Variable | Module):
        return Same(value)
    try:
        hash(value)
    except (TypeError, Error):
        return Same(value)
    return exact_key(value)


# ---- modules as trees


class Frame:
    """The rest of a module besides its variables: class, names and plain attributes.  Compared by value."""

    __slots__ = ("cls", "key", "names", "plain", "variables")

    def __init__(self, module: Module, held: Mapping[str, Any]) -> None:
        self.cls = type(module)
        self.names = tuple(k for k, v in held.items() if isinstance(v, Variable | Module))
        self.plain = {k: v for k, v in held.items() if k not in (*self.names, REBUILT)}
        self.variables = {k: (type(v), v.number) for k in self.names if isinstance(v := held[k], Variable)}
        self.key = self.cls, self.names, frozen(self.plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.cls.__name__

    @property
    def identities(self) -> tuple[Hashable, ...]:
        """The numbers of the variables, by which those at several places are known; None for inner modules."""
        return tuple([self.variables[k][1] if k in self.variables else None for k in self.names])


def _flatten(module: Module) -> tuple[Sequence[Any], Hashable]:
    report(module, "fingerprint")
    held = _attributes(module)
    frame = held.get(REBUILT) or Frame(module, held)
    return [held[name] for name in frame.names], frame


def _rebuild(frame: Any, children: Sequence[Any]) -> Module:
    module: Module = frame.cls.__new__(frame.cls)
    names: tuple[str, ...] = frame.names
    plain: dict[str, Any] = frame.plain
    vars(module).update(plain)
    if not all(isinstance(c, Variable | Module) for c in children):
        vars(module)[REBUILT] = frame  # the values themselves do not show that they replace variables
    vars(module).update(zip(names, children, strict=True))
    stands_for(module)
    return module


register(Module, _flatten, _rebuild)
