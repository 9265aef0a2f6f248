"""Special functions of the kernel IR, defined as the elementary ones are: each by instructions, to the bit.

Float32 and shorter formats are computed in float64 and rounded, so that there is one algorithm for each function.
"""
