"""The words of the trade: requests, distributions, slices, objectives. No I/O, no frameworks."""
