"""Chapters of the array API standard that no other file has: sets, and questions about the namespace."""
