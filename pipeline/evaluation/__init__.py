"""The application: :func:`evaluate`, :func:`plan`, :func:`read` and what they return. It prints nothing and knows no Hydra."""

from __future__ import annotations

from pipeline.evaluation.discovered_models import describe_models
from pipeline.evaluation.evaluate import (
    Trained,
    check_submission,
    check_training,
    evaluate,
    plan,
    prepare,
    train_extractors,
)
from pipeline.evaluation.planned import Planned
from pipeline.evaluation.result import SUMMARY, Result, SimilarityMatrices, read
from pipeline.evaluation.submit import Sent

__all__ = [
    "SUMMARY",
    "Planned",
    "Result",
    "Sent",
    "SimilarityMatrices",
    "Trained",
    "check_submission",
    "check_training",
    "describe_models",
    "evaluate",
    "plan",
    "prepare",
    "read",
    "train_extractors",
]
