"""Our answers written to a Prometheus, a Mimir, a Thanos or a VictoriaMetrics that takes remote-write."""
