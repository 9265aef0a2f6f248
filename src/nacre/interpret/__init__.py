"""The interpreters that nest (evaluate, stage, forward, tape, batch), and reverse mode of equations and graphs."""
