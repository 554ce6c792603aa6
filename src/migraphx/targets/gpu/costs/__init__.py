"""Candidates for products, convolutions and attention, and what a model of devices thinks of each."""
