"""Connections and the setup guides of their sources."""

from __future__ import annotations

from webapp.connections.pages import addresses
from webapp.connections.views import PAGES

app_name = "connections"
urlpatterns = addresses(PAGES)
