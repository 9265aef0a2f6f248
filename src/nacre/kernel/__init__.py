"""The kernel IR: loop nests, their canonical orders, elementary functions, schedules, text, and a slow interpreter."""
