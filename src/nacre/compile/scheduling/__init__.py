"""Scheduling: the order of launches and the barriers between them."""
