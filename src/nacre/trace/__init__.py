"""Values, variables, and `bind`, which applies primitives."""

from nacre.base.hints import refuse_calls

refuse_calls(__name__)
