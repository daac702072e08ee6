"""The comparison of explorers by progressive validation loss, which benchmarks.reproduce runs."""
