"""Fusion: which equations become one kernel, and which become a kernel's epilogue or prologue."""
