"""The comparison of explorers. Run from the root of the checkout: python benchmarks/reproduce.py --help."""
