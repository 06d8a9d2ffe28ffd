"""The fields in an error's body are read in order, and a server cannot make them endless."""

from evalkit.judges.body_fields import fields_in
from evalkit.judges.waits import wait_in_body


def test_fields_are_read_in_order_also_those_within_others():
    body = {"error": {"code": 429, "details": [{"retryDelay": "3s"}]}, "type": "limit"}
    names = [name for name, _ in fields_in(body)]
    assert names == ["error", "code", "details", "retryDelay", "type"]
    assert wait_in_body("", body) == 3.0


def test_depth_and_number_of_fields_are_bounded():
    deep: object = "end"
    for _ in range(1000):
        deep = {"inner": deep}
    assert len([*fields_in(deep)]) == 7
    assert len([*fields_in({str(number): number for number in range(1000)})]) == 40
    assert len([*fields_in([{"code": number} for number in range(1000)])]) == 20
    # A wait that far away is not read, so the pause is the usual one.
    assert wait_in_body("", [{}] * 100 + [{"retryAfter": 5}]) is None
