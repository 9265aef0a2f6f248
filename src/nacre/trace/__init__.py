"""Values, variables, and the one way to apply a primitive."""

from nacre.base.hints import refuse_calls

refuse_calls(__name__)
