"""GPUs as sources: what the driver says of each board, of its parts and of how it fares."""

__all__: list[str] = []
