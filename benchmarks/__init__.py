"""The comparison of explorers. Run from the root of the checkout: python -m benchmarks.compare_defaults --help."""
