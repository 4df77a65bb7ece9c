"""Additive angular margin softmax (ArcFace, Deng et al. 2019, arXiv 1801.07698, equation 3)."""

from __future__ import annotations

import math

import torch


class AngularMargin(torch.nn.Module):
    """Cosines to one direction a class, and the cross entropy in which the true class must win by an angle: ``margin`` in radians is
    added to the one between an embedding and its class, and cosines are multiplied by ``scale``."""

    def __init__(self, dimension: int, classes: int, margin: float, scale: float) -> None:
        super().__init__()
        self.directions = torch.nn.Parameter(torch.empty(classes, dimension))
        torch.nn.init.xavier_uniform_(self.directions)
        self.margin, self.scale = margin, scale

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Embeddings [b, d] and labels int64 [b] to the mean loss and the cosines [b, classes]."""
        units = torch.nn.functional.normalize(embeddings, dim=1)
        cosines = units @ torch.nn.functional.normalize(self.directions, dim=1).T
        own = cosines.gather(1, labels[:, None])
        sines = (1 - own.square()).clamp(min=1e-12).sqrt()
        later = own * math.cos(self.margin) - sines * math.sin(self.margin)
        # Beyond pi - margin the cosine of the sum would rise again; a straight line goes on falling.
        straight = own - self.margin * math.sin(self.margin)
        moved = torch.where(own > -math.cos(self.margin), later, straight)
        logits = self.scale * cosines.scatter(1, labels[:, None], moved)
        return torch.nn.functional.cross_entropy(logits, labels), cosines.detach()
