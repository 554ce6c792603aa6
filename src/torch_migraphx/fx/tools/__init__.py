"""Helpers of the FX road."""
