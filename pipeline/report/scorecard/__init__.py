"""The scorecard of a recipe: published cells, what a run measured beside them, the difference, and a verdict.

It reads results and published tables. Nothing is measured here; :mod:`follows` recomputes printed cells from other printed cells.
"""
