"""What the guide has people paste."""

from __future__ import annotations

import re
from pathlib import Path

from replicator.sources import oracle as plugin
from replicator.sources.oracle import KIND
from replicator.sources.oracle.config import LobColumns, OracleConfig
from tests.contract.live import PREFIX, settings_of

GUIDE = Path(plugin.__file__).with_name("README.md").read_text()


def test_the_guides_live_run_sets_the_variables_that_it_is_read_by() -> None:
    pasted = dict(re.findall(rf"({PREFIX}\w+)='?([^'\s`]+)", GUIDE))
    known = {PREFIX + one.name.upper() for one in KIND.form}
    assert set(pasted) <= known
    config = OracleConfig.parse(settings_of(KIND.title, KIND.form, KIND.valid, pasted))
    assert (config.host, config.service, config.pdb, config.user) == ("127.0.0.1", "FREE", "FREEPDB1", "C##TIDEMARK")
    assert config.lob_columns is LobColumns.RESELECT  # the contract has tables with a text
    assert f'IDENTIFIED BY "{config.password}"' in GUIDE
