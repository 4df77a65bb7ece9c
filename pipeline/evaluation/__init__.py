"""The application: :func:`evaluate`, :func:`plan`, :func:`read` and what they return. It prints nothing and knows no Hydra."""

from __future__ import annotations

from pipeline.evaluation.application import Trained, evaluate, plan, prepare, train_extractors
from pipeline.evaluation.discovered_models import said
from pipeline.evaluation.planned import Planned
from pipeline.evaluation.result import SUMMARY, Result, SimilarityMatrices, read
from pipeline.evaluation.submissions import check_training, submission
from pipeline.evaluation.submit import Sent

__all__ = [
    "SUMMARY",
    "Planned",
    "Result",
    "Sent",
    "SimilarityMatrices",
    "Trained",
    "check_training",
    "evaluate",
    "plan",
    "prepare",
    "read",
    "said",
    "submission",
    "train_extractors",
]
