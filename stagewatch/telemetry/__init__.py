"""What Stagewatch tells of its own work, in OpenTelemetry, if it is asked to."""
