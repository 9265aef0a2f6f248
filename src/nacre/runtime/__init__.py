"""The runtime of compiled programs: memory, plans, executables."""
