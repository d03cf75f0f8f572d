"""Real boto3 clients that talk to the fake, with credentials of nobody."""

import boto3
from botocore.config import Config

__all__ = ["client"]


def client(service, url, *, attempts=1):
    """Without retries unless asked: a test must see what the fake said."""
    session = boto3.session.Session(
        aws_access_key_id="nobody",
        aws_secret_access_key="nothing",  # noqa: S106 - of nobody
        region_name="us-east-1",
    )
    retries = {"mode": "standard", "total_max_attempts": attempts}
    return session.client(service, endpoint_url=url, config=Config(retries=retries))
