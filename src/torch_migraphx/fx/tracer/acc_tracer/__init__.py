"""Symbolic tracing to acc operators."""
