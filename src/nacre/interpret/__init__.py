"""The interpreters that nest: evaluate, stage, forward, linearise, tape, batch."""
