"""The pure core: values in, values out. No clock, no disk, no randomness, no Spark."""
