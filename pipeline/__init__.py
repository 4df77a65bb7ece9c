"""End-to-end evaluation of voice anonymisation and pseudonymisation."""

__version__ = "0.1.0"
