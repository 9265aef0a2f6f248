"""Operations on complex numbers, defined by real operations of the kernel IR on real and imaginary parts.

`functions.FUNCTIONS` has one definition for each operation.  A definition takes and returns pairs of real expressions,
and binds its intermediate values by `Let` statements.  The definitions read as mathematics on `terms`.
"""
