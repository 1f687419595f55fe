"""Brokers that require TLS, a user, or both: right settings work, and a wrong one is reported in a sentence."""

from __future__ import annotations

import time
from typing import Any

import pytest

from replicator.sources.base import CheckResult, CheckStatus
from replicator.targets.kafka.check import check
from testing.servers.kafka import EmbeddedKafka
from tests.integration.kafka.conftest import KafkaLab
from tests.integration.kafka.security import PASSWORD, USER, Authority
from webapp.replicators import services
from webapp.replicators.targets import full_target
from webapp.worker.run.headless import HeadlessRun

pytestmark = [pytest.mark.integration]
WRONG = "wrong-battery-0815"
STRANGER = Authority("a stranger").pem
OK = {"username": USER, "password": PASSWORD}
SCRAM, PLAIN = {"sasl_mechanism": "SCRAM-SHA-512"}, {"sasl_mechanism": "PLAIN"}
# by what the client meets first: an answer, or the end of the connection
NO_TLS = "do not accept TLS|close connections with"
PROMPT = 60.0  # seconds within which the check reports an error; two on an idle machine


def tried(broker: EmbeddedKafka, listener: str, **settings: Any) -> list[CheckResult]:
    """The check, at the port of `listener`."""
    return check({"bootstrap_servers": broker.servers(listener), "topic_prefix": "security", **settings})


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        ("PLAINTEXT", {}),
        ("SASL_PLAINTEXT", OK | SCRAM),
        ("SSL", {}),
        ("SASL_SSL", OK | SCRAM),
        ("SASL_SSL", OK | PLAIN),
    ],
)
def test_right_settings_pass_the_check(
    broker: EmbeddedKafka, authority: Authority, protocol: str, settings: dict[str, str]
) -> None:
    found = tried(broker, protocol, security_protocol=protocol, ca=authority.pem, **settings)
    assert [(line.name, line.status) for line in found] == [
        ("brokers", CheckStatus.OK),
        ("topics", CheckStatus.OK),
        ("transactions", CheckStatus.OK),
    ], found


MINE = "of the authority that signed"
PASSES = {"ca": MINE, **OK, **SCRAM}
USER_REFUSED, CORRECT = "reject the user", "Correct the user and password"
UNVERIFIED = "cannot be verified by the certificate authority of the target"
GIVE = "Set the certificate authority"


@pytest.mark.parametrize(
    ("protocol", "listener", "changes", "message", "remedy"),
    [
        ("SASL_PLAINTEXT", "", {"password": WRONG}, USER_REFUSED, CORRECT),
        ("SASL_SSL", "", {"password": WRONG, **PLAIN}, USER_REFUSED, CORRECT),
        ("SASL_PLAINTEXT", "", PLAIN, "in clear", "Choose SASL_SSL"),
        ("SASL_SSL", "", {"password": WRONG}, USER_REFUSED, CORRECT),
        ("SASL_SSL", "", {"username": "nobody"}, "reject the user nobody", CORRECT),
        ("SSL", "", {"ca": STRANGER}, UNVERIFIED, GIVE),
        ("SASL_SSL", "", {"ca": STRANGER}, UNVERIFIED, GIVE),
        ("SSL", "", {"ca": ""}, "the system’s certificate authorities", GIVE),
        ("SSL", "", {"ca": "none"}, "not a PEM certificate", "Paste the file"),
        (
            "SASL_SSL", "", {"sasl_mechanism": "SCRAM-SHA-256"},
            "do not support the SASL mechanism SCRAM-SHA-256; they support PLAIN, SCRAM-SHA-512.",
            "Choose a supported mechanism",
        ),
        ("SASL_SSL", "", {"sasl_mechanism": "GSSAPI"}, "sasl_mechanism must be one of PLAIN", "Correct the setting"),
        ("PLAINTEXT", "SSL", {}, "close connections with PLAINTEXT", "Choose the security protocol"),
        ("PLAINTEXT", "SASL_SSL", {}, "close connections with PLAINTEXT", "Choose the security protocol"),
        ("PLAINTEXT", "SASL_PLAINTEXT", {}, "close connections with PLAINTEXT", "Choose the security protocol"),
        ("SSL", "SASL_SSL", {}, "close connections with SSL", "Choose the security protocol"),
        ("SSL", "PLAINTEXT", {}, NO_TLS, "Choose the security protocol"),
        ("SASL_SSL", "SASL_PLAINTEXT", {}, NO_TLS, "Choose the security protocol"),
        ("SASL_SSL", "SSL", {}, "do not use SASL", "Choose the security protocol SSL"),
        ("SASL_PLAINTEXT", "PLAINTEXT", {}, "do not use SASL", "Choose the security protocol PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_SSL", {}, "close connections with SASL_PLAINTEXT", "Choose the security protocol"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_a_sentence(
    broker: EmbeddedKafka,
    authority: Authority,
    protocol: str,
    listener: str,
    changes: dict[str, str],
    message: str,
    remedy: str,
) -> None:
    settings = {name: authority.pem if value is MINE else value for name, value in (PASSES | changes).items()}
    begun = time.monotonic()
    [line] = tried(broker, listener or protocol, security_protocol=protocol, **settings)
    assert time.monotonic() - begun < PROMPT
    assert line.status is CheckStatus.FAILED
    assert any(one in line.detail for one in message.split("|")), line.detail
    assert line.remedy.startswith(remedy)
    for text in (line.detail, line.remedy):
        assert text.endswith(".")
        assert "\n" not in text
        assert "Traceback" not in text
        assert "librdkafka" not in text
        assert PASSWORD not in text
        assert WRONG not in text


@pytest.mark.django_db(transaction=True)
def test_changes_arrive_over_tls_and_a_wrong_password_holds_them_up_only(lab: KafkaLab, authority: Authority) -> None:
    """The password of an existing replicator becomes wrong, which the table reports, and is corrected."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t SELECT seq, 'a' FROM seq_1_to_50")
    secure = {"bootstrap_servers": lab.broker.servers("SASL_SSL"), "security_protocol": "SASL_SSL", "ca": authority.pem}
    replicator = lab.replicate(**secure, **OK)
    lab.run()
    lab.assert_rebuilt("t")
    lab.execute("UPDATE t SET v = 'b' WHERE id % 2 = 0", "DELETE FROM t WHERE id = 7")
    target = {**replicator.target, **OK}
    services.update_target(replicator=replicator, target={**target, "password": WRONG})
    with HeadlessRun(lab.replicator):
        deadline = time.monotonic() + 60
        while not lab.table("t").error_message and time.monotonic() < deadline:
            time.sleep(0.1)
    table = lab.table("t")
    assert USER_REFUSED in table.error_message
    assert table.error_remedy.startswith(CORRECT)
    assert WRONG not in table.error_message + table.error_remedy
    services.update_target(replicator=lab.replicator, target={**target, **PLAIN})
    assert full_target(lab.replicator)["sasl_mechanism"] == "PLAIN"
    lab.run()
    found = lab.assert_rebuilt("t")
    assert (found.ops["u"], found.ops["d"]) == (25, 1)
    assert lab.table("t").error_message == ""
