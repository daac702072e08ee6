"""What several of the benchmarks use."""
