"""How many GPUs an instance type has: what a utilisation that sums over them is divided by."""

__all__ = ["ACCELERATORS", "ACCELERATORS_NAMESPACE", "accelerators_of"]

ACCELERATORS = "accelerators"
ACCELERATORS_NAMESPACE = "DescribeEndpointConfig"
"""How the number travels: a series beside CloudWatch's own, named after where it is from."""

_ONE_MACHINE = {"xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "12xlarge": 4, "16xlarge": 1}
_WITH_LARGER = {**_ONE_MACHINE, "24xlarge": 4, "48xlarge": 8}
_GPUS = {
    "g4dn": _ONE_MACHINE,
    "g5": _WITH_LARGER,
    "g6": _WITH_LARGER,
    "g6e": _WITH_LARGER,
    "g7e": {"2xlarge": 1},
    "p2": {"xlarge": 1, "8xlarge": 8, "16xlarge": 16},
    "p3": {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8},
    "p3dn": {"24xlarge": 8},
    "p4d": {"24xlarge": 8},
    "p4de": {"24xlarge": 8},
    "p5": {"4xlarge": 1, "48xlarge": 8},
    "p5e": {"48xlarge": 8},
    "p5en": {"48xlarge": 8},
    "p6-b200": {"48xlarge": 8},
    "p6-b300": {"48xlarge": 8},
    "p6e-gb200": {"36xlarge": 4},
}


def accelerators_of(instance_type: str) -> int | None:
    """GPUs of a type such as `ml.g5.12xlarge`; None where we do not know it."""
    family, _, size = instance_type.removeprefix("ml.").partition(".")
    return _GPUS.get(family, {}).get(size)
