"""What a Prometheus may have of our answers: quantiles with their doubt, requests, burn, alerts."""
