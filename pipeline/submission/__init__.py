"""Checks of a submission: what is wrong with a folder of anonymised audio, and with the data set that it belongs to."""

from pipeline.submission.check import Folder, check_submission
from pipeline.submission.findings import COLUMNS, Check, Named, Report

__all__ = ["COLUMNS", "Check", "Folder", "Named", "Report", "check_submission"]
