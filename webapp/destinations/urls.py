"""Destinations and their guides."""

from __future__ import annotations

from webapp.connections.pages import addresses
from webapp.destinations.views import PAGES

app_name = "destinations"
urlpatterns = addresses(PAGES)
