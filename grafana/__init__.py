"""Grafana dashboards over what our sidecars and our pages show to a Prometheus."""
