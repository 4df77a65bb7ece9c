"""Checks of a submission: what is wrong with a folder of anonymised audio, and with the lists that it is tried by."""

from pipeline.submission.check import Given, check
from pipeline.submission.findings import COLUMNS, Check, Named, Report

__all__ = ["COLUMNS", "Check", "Given", "Named", "Report", "check"]
