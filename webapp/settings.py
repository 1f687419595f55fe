"""Django settings; everything that differs between installations comes from `environment`."""

from __future__ import annotations

import os
from pathlib import Path

from replicator.state.lease import LEASE_SECONDS
from webapp import environment
from webapp.metadata_driver import keep_to_psycopg2

BASE_DIR = Path(__file__).resolve().parent.parent
TIDEMARK_HOME = environment.home()
SECRET_KEY = environment.secret_key(TIDEMARK_HOME)
SECRET_KEY_FALLBACKS = environment.old_secret_keys(TIDEMARK_HOME)
DEBUG = environment.flag("DEBUG")
ALLOWED_HOSTS = environment.names(os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]"))
CSRF_TRUSTED_ORIGINS = environment.names(os.environ.get("CSRF_TRUSTED_ORIGINS", ""))

DATABASE_URL = environment.service_url("DATABASE_URL", TIDEMARK_HOME)
TIDEMARK_CATALOG_URL = environment.secret("TIDEMARK_CATALOG_URL")  # empty: beside the metadata database
REDIS_URL = environment.service_url("REDIS_URL", TIDEMARK_HOME)
TIDEMARK_STAGING_URL = environment.location("TIDEMARK_STAGING_URL", TIDEMARK_HOME, "staging", query=True)
TIDEMARK_WAREHOUSE_URL = environment.location("TIDEMARK_WAREHOUSE_URL", TIDEMARK_HOME, "warehouse")
environment.keep_private(TIDEMARK_HOME, TIDEMARK_STAGING_URL, TIDEMARK_WAREHOUSE_URL)
TIDEMARK_SEGMENT_RETENTION_HOURS = float(os.environ.get("TIDEMARK_SEGMENT_RETENTION_HOURS", "6"))
TIDEMARK_LOG_RETENTION_DAYS = float(os.environ.get("TIDEMARK_LOG_RETENTION_DAYS", "7"))
# Of each replicator and level.
TIDEMARK_LOG_LINES = int(os.environ.get("TIDEMARK_LOG_LINES", "20000"))
TIDEMARK_METRIC_RETENTION_DAYS = float(os.environ.get("TIDEMARK_METRIC_RETENTION_DAYS", "30"))
# How long lags are kept by minute (at least 2 days: the windows up to a day begin at one), by hour (at least 31) and by
# day.
TIDEMARK_LAG_MINUTE_DAYS = environment.at_least("TIDEMARK_LAG_MINUTE_DAYS", 3, least=2, unit="days")
TIDEMARK_LAG_HOUR_DAYS = environment.at_least("TIDEMARK_LAG_HOUR_DAYS", 35, least=31, unit="days")
TIDEMARK_LAG_DAY_DAYS = environment.at_least("TIDEMARK_LAG_DAY_DAYS", 400, least=1, unit="days")
TIDEMARK_AUDIT_RETENTION_DAYS = environment.at_least("TIDEMARK_AUDIT_RETENTION_DAYS", 400, least=1, unit="days")
TIDEMARK_ALERT_RETENTION_DAYS = float(os.environ.get("TIDEMARK_ALERT_RETENTION_DAYS", "90"))
# Networks besides the public ones that webhooks may go to: 10.1.0.0/16,127.0.0.1.
TIDEMARK_ALERT_NETWORKS = environment.networks("TIDEMARK_ALERT_NETWORKS")
# How people reach these pages: https://tidemark.example.com.  Alerts link there.
TIDEMARK_URL = os.environ.get("TIDEMARK_URL", "").rstrip("/")
# A standby takes over this long after a worker was heard of for the last time.
TIDEMARK_RETENTION_STEPS, TIDEMARK_DELETION_GRACE_HOURS = environment.retention()
TIDEMARK_LEASE_SECONDS = environment.at_least("TIDEMARK_LEASE_SECONDS", LEASE_SECONDS, least=1)
TIDEMARK_SLICE_SECONDS = float(os.environ.get("TIDEMARK_SLICE_SECONDS", "60"))
SPARK_MASTER = os.environ.get("SPARK_MASTER", "") or "local[*]"
SPARK_REMOTE = os.environ.get("SPARK_REMOTE", "")
TIDEMARK_SPARK_MEMORY = os.environ.get("TIDEMARK_SPARK_MEMORY", "1g")
# Further Spark settings as JSON: {"spark.hadoop.fs.s3a.endpoint": "…"}.
TIDEMARK_SPARK_EXTRA = environment.mapping("TIDEMARK_SPARK_EXTRA")
# The token that /metrics requires, and for how many tables at most it has series.
TIDEMARK_METRICS_TOKEN = environment.secret("TIDEMARK_METRICS_TOKEN")
TIDEMARK_METRICS_TABLES = int(os.environ.get("TIDEMARK_METRICS_TABLES", "1000"))
# OpenLineage events to a URL or a file (docs/monitoring.md); neither: none are made.
TIDEMARK_OPENLINEAGE_URL = environment.http_url("TIDEMARK_OPENLINEAGE_URL")
TIDEMARK_OPENLINEAGE_TOKEN = environment.secret("TIDEMARK_OPENLINEAGE_TOKEN")
TIDEMARK_OPENLINEAGE_FILE = os.environ.get("TIDEMARK_OPENLINEAGE_FILE", "")
TIDEMARK_OPENLINEAGE_FILE_MIB = int(os.environ.get("TIDEMARK_OPENLINEAGE_FILE_MIB", "50"))
TIDEMARK_OPENLINEAGE_NAMESPACE = os.environ.get("TIDEMARK_OPENLINEAGE_NAMESPACE", "tidemark")
TIDEMARK_OPENLINEAGE_MERGE_SECONDS = environment.at_least("TIDEMARK_OPENLINEAGE_MERGE_SECONDS", 300, least=60)
TIDEMARK_OPENLINEAGE_QUEUE = int(os.environ.get("TIDEMARK_OPENLINEAGE_QUEUE", "5000"))
keep_to_psycopg2()
DATABASES = {"default": environment.database(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "webapp",
    "webapp.accounts",
    "webapp.connections",
    "webapp.destinations",
    "webapp.replicators",
    "webapp.monitoring",
    "webapp.alerts",
    "webapp.streams",
    "webapp.worker",
    "webapp.telemetry",
]
TIDEMARK_PROXIES = int(environment.at_least("TIDEMARK_PROXIES", 0, least=0, unit="proxies"))
MIDDLEWARE = [
    "webapp.web.middleware.ClientAddress",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "webapp.web.middleware.Unchanged",
    "webapp.web.middleware.ContentSecurityPolicy",
    "webapp.web.middleware.NoNul",
    "webapp.web.middleware.Zone",
    "webapp.web.middleware.DatabaseAway",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "webapp.accounts.audit.About",
    "webapp.accounts.guard.Guard",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "webapp.urls"
WSGI_APPLICATION = "webapp.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],  # `pip install` puts them where APP_DIRS finds them
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.accounts.guard.context",
            ],
        },
    },
]

LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATICFILES_DIRS = [path for path in (BASE_DIR / "static",) if path.is_dir()]
STATIC_ROOT = TIDEMARK_HOME / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# Behind a TLS proxy: HTTPS_ONLY=1.
HTTPS_ONLY = environment.flag("HTTPS_ONLY")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS_ONLY
SECURE_REDIRECT_EXEMPT = [
    r"^healthz$",
    r"^readyz$",
]  # probes come from inside, without a certificate; they tell no secret
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS_ONLY else None
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS_ONLY else 0
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
# No inline scripts or styles anywhere: htmx is vendored and its indicator styles are in our own style sheet.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "webapp.accounts.authentication.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "webapp.accounts.guard.RolePermission",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tidemark",
    "DESCRIPTION": "Everything the pages can do: connections, replicators, snapshots, verification.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated", "webapp.accounts.guard.RolePermission"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# smtp://user:password@host:587?tls=starttls&from=tidemark@example.com (tls: starttls, implicit or none).
_MAIL = environment.mail(os.environ.get("EMAIL_URL", ""))
EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_HOST, EMAIL_PORT = _MAIL.host, _MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.user, _MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _MAIL.tls == "starttls", _MAIL.tls == "implicit"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = _MAIL.sender

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "webapp.logs.JsonFormatter"}, "text": {"()": "webapp.logs.TextFormatter"}},
    "handlers": {
        "stdout": {
            "class": "logging.StreamHandler",
            "stream": "ext://sys.stdout",
            "formatter": environment.one_of("TIDEMARK_LOG_FORMAT", ("json", "text")),
        }
    },
    "root": {"handlers": ["stdout"], "level": "WARNING"},
    "loggers": {"tidemark": {"level": "INFO"}, "celery": {"level": "WARNING"}},
}
