"""For gunicorn."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
application = get_wsgi_application()
VIEWS = get_resolver().url_patterns  # the views are loaded now: the first who ask would all wait for that
