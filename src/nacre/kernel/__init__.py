"""The kernel IR: loop nests, their canonical orders, schedules, text, and a slow interpreter."""
