"""The version of the distribution, as results and signatures carry it."""

__version__ = "0.1.0"
