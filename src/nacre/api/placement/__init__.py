"""Functions that store at computed places and combine what meets at one place."""
