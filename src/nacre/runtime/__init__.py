"""What a compiled program needs: memory, plans, executables."""
