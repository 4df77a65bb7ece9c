"""Benchmarks: speed, memory and coverage against the limits that the project sets itself; ``make benchmark``."""
