"""The public functions in one namespace, where `Tensor`'s methods find them."""

from __future__ import annotations

import re
from typing import Any

from nacre.api import (
    constants,
    creation,
    data_types,
    indexing,
    linear_algebra,
    manipulation,
    printing,
    random,
    searching,
    settings,
    slices,
    sorting,
    statistical,
    taking,
    tree,
    utility,
)
from nacre.api.elementwise import arithmetic, comparison, complex_numbers, logic, transcendental
from nacre.api.other_names import functions as other_names
from nacre.api.other_names import short
from nacre.api.other_names.late import LATE, WITHOUT_METHOD, LateMethod
from nacre.api.other_names.methods import made
from nacre.api.standard import sets
from nacre.api.tensor import FUNCTIONS, Tensor
from nacre.base import dtypes, errors
from nacre.base.boundary import public_class, publish, publish_all, undecorated
from nacre.base.dims import Dim
from nacre.base.hints import mark_absent
from nacre.base.porting.functions import NACRE
from nacre.trace.variable import Variable

MODULES = (
    constants,
    creation,
    data_types,
    arithmetic,
    comparison,
    logic,
    transcendental,
    complex_numbers,
    statistical,
    searching,
    utility,
    manipulation,
    linear_algebra,
    indexing,
    taking,
    sets,
    slices,
    sorting,
    settings,
    printing,
    short,
)


def required(function: Any) -> tuple[str, ...]:
    """The names of the parameters of a function that have no default."""
    code = undecorated(function).__code__
    return code.co_varnames[: code.co_argcount - len(getattr(function, "__defaults__", None) or ())]


PUBLIC: dict[str, Any] = {name: publish(module, name) for module in MODULES for name in module.__all__}
publish_all(random.__name__, random.__all__)
publish_all(tree.__name__)
for cls in (Tensor, Variable):
    public_class(cls)
FUNCTIONS.__dict__.update(  # methods of the same name check their own arguments
    {name: getattr(held, "__wrapped__", held) if hasattr(Tensor, name) else held for name, held in PUBLIC.items()}
)
dtypes.CONVERSION[:] = [PUBLIC["tensor"]]
METHODS = made(PUBLIC)
for name, method in METHODS.items():
    setattr(Tensor, name, method)
for name in LATE.split():
    setattr(Tensor, name, LateMethod(name))
mark_absent(Tensor, {
    name: f"nacre.{name}({', '.join(required(held))})"
    for name, held in PUBLIC.items() if "TensorLike" in getattr(held, "__annotations__", {}).values()
})  # fmt: skip
mark_absent(Tensor, {name: f"nacre.{name}(x, ...)" for name in WITHOUT_METHOD.split()})
mark_absent(Tensor, {name: advice for name, advice in NACRE.items() if re.search(r"\bx\b", advice)})

PUBLIC.update({d.name: d for d in dtypes.NAMED})
ALIASES: dict[str, Any] = {}  # other names of functions and dtypes
for name in other_names.__all__:
    held = getattr(other_names, name)
    ALIASES[name] = PUBLIC.get(getattr(held, "__name__", ""), held)
PUBLIC.update(ALIASES)
PUBLIC.update({name: vars(errors)[name] for name in errors.__all__})
PUBLIC.update(Tensor=Tensor, Variable=Variable, DType=dtypes.DType, Dim=Dim.symbol, random=random, tree=tree)
