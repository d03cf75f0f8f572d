"""CloudWatch as a source: endpoints of SageMaker and Bedrock, and the path in front of them."""

__all__: list[str] = []
