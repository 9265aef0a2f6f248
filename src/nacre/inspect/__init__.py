"""Inspection of the compiler's output and of the machine that it compiles for."""
