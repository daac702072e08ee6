"""Benchmarks: each file here, and online/, is a program, `python -m benchmarks.NAME --help`.

- reproduce: the paper's comparison of explorers on data sets, in comparison/
- online/: explorers on online problems with exact regret; costs: data sets with costs in other units
- studies of one question each: batch, budget, load, long_run, nonlinear, published, regret, replay_study, speed
- obd: the Open Bandit Dataset as a log for VW
- shared/: code that several of them use
"""
