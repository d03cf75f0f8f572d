"""`stagewatch up` with managed endpoints: from CloudWatch to the API in one process."""

import os
import time

import yaml

from tests.e2e.running import Stagewatch
from tests.exporters.cloudwatch.polling import SAGEMAKER, VARIANT
from tests.fake_cloudwatch.server import fake_cloudwatch

NOBODY = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def test_endpoints_answer_through_the_api_and_the_end_is_clean(tmp_path):
    otlp = 24_000 + os.getpid() % 8_000
    file, data = tmp_path / "stagewatch.yaml", tmp_path / "data"
    scope = {"account": "111122223333", "region": "us-east-1", "endpoints": [SAGEMAKER]}
    with fake_cloudwatch() as fake:
        minute_s = int(time.time()) // 60 * 60
        for ago in range(1, 11):
            at_s = minute_s - 60 * ago
            fake.account.put("AWS/SageMaker", "ModelLatency", VARIANT, at_s, [2e6, 3e6])
        section = {"listen_port": 0, "scopes": [scope | {"endpoint_url": fake.url}]}
        file.write_text(yaml.safe_dump({"exporters": {"cloudwatch": section}}))
        command = ("up", "--config", str(file), "--data-dir", str(data))
        environment = {**NOBODY, "STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT": str(otlp)}
        with Stagewatch(*command, **environment) as up:
            end_s = time.monotonic() + 30
            while not (found := up.get("/api/v1/endpoints", metric="ModelLatency")["series"]):
                assert time.monotonic() < end_s
                time.sleep(0.2)

            assert found[0]["unit"] == "s"
            told = [point["statistics"] for point in found[0]["points"] if point["statistics"]]
            assert {each["Sum"] for each in told} == {5.0}, "minutes without traffic say nothing"
            assert (data / "spool" / "cloudwatch").is_dir()
            assert up.interrupt() < 5
