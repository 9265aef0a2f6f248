"""Anomalies of numbers: their kinds, the flags that find them in compiled code, and the search for the first one."""
