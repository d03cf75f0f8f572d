"""A simulated fleet of inference engines that speaks as real ones do: pages and spans."""

__all__: list[str] = []
