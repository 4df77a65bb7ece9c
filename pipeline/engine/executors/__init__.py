"""How tasks are run: one module an executor."""
