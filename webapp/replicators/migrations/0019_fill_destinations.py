"""One destination for all replicators that had the same settings of a target's address."""

import json
from typing import Any

from django.db import migrations

from replicator.errors import ConfigurationError
from webapp.connections.secrets import unseal

KAFKA = ("bootstrap_servers", "security_protocol", "sasl_mechanism", "username", "ca")  # the rest is the replicator's
DEFAULTS = {"security_protocol": "PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}


def split(apps: Any, schema_editor: Any) -> None:
    Replicator = apps.get_model("replicators", "Replicator")
    Destination = apps.get_model("destinations", "Destination")
    Draft = apps.get_model("replicators", "Draft")
    made = {}
    for one in Replicator.objects.order_by("id"):
        kind = one.target.get("kind") or "iceberg"
        names = KAFKA if kind == "kafka" else ()
        config = {name: one.target.get(name, DEFAULTS.get(name, "")) for name in names}
        key = (kind, json.dumps(config, sort_keys=True), secret(one.target_secrets))
        if key not in made:
            title = f"Apache Kafka {config['bootstrap_servers']}"[:90] if names else "Lakehouse"
            made[key] = Destination.objects.create(
                name=free(Destination, title), kind=kind, config=config, secrets=one.target_secrets
            )
        one.destination = made[key]
        one.target = {name: value for name, value in one.target.items() if name not in {"kind", *names}}
        one.save(update_fields=["destination", "target"])
    for draft in Draft.objects.all():  # the step is asked for again
        if draft.data.keys() & {"target", "target_secrets", "typed"}:
            draft.data = {k: v for k, v in draft.data.items() if k not in {"target", "target_secrets", "typed"}}
            draft.save(update_fields=["data"])


def secret(token: str) -> str:
    try:
        return json.dumps(unseal(token), sort_keys=True)
    except ConfigurationError:  # encrypted with another key: compared as it is
        return token


def free(model: Any, title: str) -> str:
    name, number = title, 1
    while model.objects.filter(name=name).exists():
        number += 1
        name = f"{title} {number}"
    return name


def join(apps: Any, schema_editor: Any) -> None:
    for one in apps.get_model("replicators", "Replicator").objects.select_related("destination").order_by("id"):
        one.target = {"kind": one.destination.kind, **one.destination.config, **one.target}
        one.target_secrets = one.destination.secrets
        one.destination = None
        one.save(update_fields=["destination", "target", "target_secrets"])
    apps.get_model("destinations", "Destination").objects.all().delete()


class Migration(migrations.Migration):

    dependencies = [("replicators", "0018_destination")]
    operations = [migrations.RunPython(split, join)]
