"""Kernel IR from plain Python: loops over arrays, in a typed subset of the language.

`translate.translated` writes the kernel of a function for the types of its arrays.  `scalars` has the values of
expressions, `expressions` and `statements` translate, `flow` analyses a function before, and `guards` puts conditions
around accesses that are not provably inside of their arrays.
"""
