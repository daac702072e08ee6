"""Explorers on online problems with exact regret: python -m benchmarks.online (docs/online.md)."""
