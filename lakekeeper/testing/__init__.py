"""For authors of adapters and policies: a memory adapter, the contract suite, strategies, goldens."""
