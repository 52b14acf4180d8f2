"""The paper ("Online Prototype Alignment for Few-shot Policy Transfer", ICML 2023) beside ours: baselines, tables, figures.

This package stands on the core, and the core does not know of it.
"""
