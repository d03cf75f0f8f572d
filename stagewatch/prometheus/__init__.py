"""What a Prometheus knows of engines, as the exports that a sidecar beside them would have sent."""
