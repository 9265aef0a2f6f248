"""The public functions together, and the place where `Tensor`'s methods find them."""

from __future__ import annotations

from typing import Any

from nacre.api import (
    analysis,
    creation,
    functions,
    indexing,
    linalg,
    manipulation,
    random,
    reductions,
    settings,
    slices,
    sorting,
)
from nacre.api.tensor import FUNCTIONS, Tensor
from nacre.base import dtypes, errors
from nacre.base.dims import Dim
from nacre.trace.variable import Variable

MODULES = (creation, functions, analysis, reductions, manipulation, linalg, indexing, slices, sorting, settings)

PUBLIC: dict[str, Any] = {name: getattr(module, name) for module in MODULES for name in module.__all__}
FUNCTIONS.__dict__.update(PUBLIC)

PUBLIC.update({d.name: d for d in dtypes.ALL})
PUBLIC.update({name: error for name, error in vars(errors).items() if isinstance(error, type)})
PUBLIC.update(Tensor=Tensor, Variable=Variable, DType=dtypes.DType, Dim=Dim.symbol, random=random)
