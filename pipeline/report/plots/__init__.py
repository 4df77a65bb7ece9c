"""Figures of the report: each module draws one kind from its figure data and returns :class:`~.base.Plot` objects."""
