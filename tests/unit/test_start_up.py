from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings

LOADED = "import sys, django; django.setup(); print(*sorted(m for m in sys.modules if m.startswith('webapp.')))"


def test_a_process_that_starts_loads_models_and_signals_only(tmp_path: Path) -> None:
    """Seen: receivers that were connected at the start loaded the whole worker, half a second of every command."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.settings", "TIDEMARK_HOME": str(tmp_path)}
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=settings.BASE_DIR, env=environment, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert "webapp.worker.signals" in loaded
    assert not [
        name for name in loaded if name.startswith(("webapp.worker.run", "webapp.worker.store", "webapp.console"))
    ]
    assert not {"webapp.telemetry.delivery", "webapp.replicators.services"} & set(loaded)
