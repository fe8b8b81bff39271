"""Django's settings, derived from the node's Config (`broker_app.config`)."""

from functools import partial
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from django.utils.functional import SimpleLazyObject

from broker_app.features.cluster.configuration import settings as cluster_settings
from mom_site import log_formats
from mom_site.database import database, pipeline_database
from mom_site.secret import former_keys, secret_key

_PACKAGE = Path(__file__).resolve().parent
#: has the folders templates, static and locale: in a wheel this package, in a checkout the one around it
SITE_FILES = _PACKAGE if (_PACKAGE / "templates").is_dir() else _PACKAGE.parent

MOM = cluster_settings.load()

DEBUG = False
# Created when it is first needed: `--help`, or a port in use, creates no data directory.
_KEY_FILE = MOM.secret_key_path
SECRET_KEY = SimpleLazyObject(partial(secret_key, _KEY_FILE))
SECRET_KEY_FALLBACKS = SimpleLazyObject(partial(former_keys, _KEY_FILE))
ALLOWED_HOSTS = ["*"]  # mom_site.asgi looks at the host, for Django and WebSockets alike
ROOT_URLCONF = "mom_site.urls"
FORCE_SCRIPT_NAME = MOM.base_path or None
ASGI_APPLICATION = "mom_site.asgi.application"

INSTALLED_APPS = [
    "broker_app",
    "broker_app.pipeline.apps.PipelineConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "servestatic",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
]

MIDDLEWARE = [
    "broker_app.web.policy_sync.AppliedFirst",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "broker_app.web.compressed_pages.CompressedPages",
    "broker_app.web.content_policy.ContentPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "broker_app.web.languages.LanguageOfReader",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "broker_app.web.roles.MonitorsChangeNothing",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [SITE_FILES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "broker_app.web.console.base.frame.frame",
            ]
        },
    }
]

# Configuration only; messages are in the journal.
DATABASES = {
    "default": database(MOM.database, MOM.data),
    "pipeline": pipeline_database(MOM.database, MOM.data),
}
DATABASE_ROUTERS = ["broker_app.pipeline.database.Router"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Workers send the requests of webhooks; the broker limits how many there are at a time.

CHANNEL_LAYERS: dict[str, dict[str, Any]] = {}
if MOM.channel_layer is not None:
    CHANNEL_LAYERS["default"] = {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [MOM.channel_layer], "prefix": "mom", "capacity": 10_000, "expiry": 60},
    }

# Authentication

AUTHENTICATION_BACKENDS = ["broker_app.web.auth.backends.ThrottledBackend"]
PASSWORD_HASHERS = ["mom_site.passwords.Argon2"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
WITH_TLS = MOM.behind_tls or MOM.tls_cert is not None
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "console"
LOGOUT_REDIRECT_URL = "login"

SESSION_ENGINE = "broker_app.web.auth.sessions"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_NAME = "mom_session"
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = MOM.base_path + "/"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = WITH_TLS
CSRF_COOKIE_NAME = "mom_csrf"
CSRF_COOKIE_SECURE = WITH_TLS
CSRF_TRUSTED_ORIGINS = list(MOM.allowed_origins)

if MOM.oidc_issuer is not None:
    INSTALLED_APPS += [
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "allauth.socialaccount.providers.openid_connect",
    ]
    MIDDLEWARE += ["allauth.account.middleware.AccountMiddleware"]
    SOCIALACCOUNT_ADAPTER = "broker_app.web.auth.oidc.Adapter"
    # A form could not lead to the provider: our own rules for pages forbid it.
    SOCIALACCOUNT_LOGIN_ON_GET = True
    SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": "oidc",
                    "name": MOM.oidc_name,
                    "client_id": MOM.oidc_client_id or "",
                    "secret": MOM.oidc_client_secret or "",
                    "settings": {"server_url": MOM.oidc_issuer},
                }
            ],
        }
    }

# What a browser may do with our pages

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

if MOM.behind_tls:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
if MOM.behind_tls or MOM.tls_cert is not None:
    SECURE_HSTS_SECONDS = 365 * 86_400

# Static files are served from where they are built; bundles carry a hash in their name.

STATIC_URL = "static/"
STATIC_ROOT = None
STATICFILES_DIRS = [SITE_FILES / "static"]
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_USE_STATIC_ROOT = False
SERVESTATIC_ALLOW_ALL_ORIGINS = False
SERVESTATIC_IMMUTABLE_FILE_TEST = r"^.+[.-][0-9A-Za-z_-]{8,32}\..+$"

# The API

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "broker_app.web.auth.authentication.BearerAuthentication",
        "broker_app.web.auth.authentication.PasswordAuthentication",
        "rest_framework.authentication.SessionAuthentication",
        "broker_app.web.auth.authentication.CertificateAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["broker_app.web.roles.MayUse"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "broker_app.web.refusals.problem_response",
    "URL_FORMAT_OVERRIDE": None,  # a parameter `format` is as unknown, or as known, as any other
}
SPECTACULAR_SETTINGS = {
    "TITLE": "MOM",
    "DESCRIPTION": "The HTTP interface of the MOM message broker.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVERS": [{"url": MOM.base_path}] if MOM.base_path else [],
    "SERVE_PUBLIC": True,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": True,
        "docExpansion": "none",
        "filter": True,
        "validatorUrl": None,
    },
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "broker_app.web.api.describe",
    ],
}

# The rest

USE_TZ = True
TIME_ZONE = "UTC"

# Pages speak the language of who reads; programs hear English (broker_app.web.languages).
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LANGUAGE_COOKIE_NAME = "mom_language"
LOCALE_PATHS = [SITE_FILES / "locale"]
FORMAT_MODULE_PATH = ["mom_site.formats"]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "without_links": {"()": "mom_site.discretion.WithoutLinks"},
        "rare_lines": {"()": "broker_app.base.log_limit.RareLines"},
    },
    "formatters": {"line": {"()": log_formats.FORMATS[MOM.log_format]}},
    "handlers": {
        "stdout": {
            "class": "logging.StreamHandler",
            "stream": "ext://sys.stdout",
            "formatter": "line",
            "filters": ["rare_lines", "without_links"],
        }
    },
    "root": {"handlers": ["stdout"], "level": MOM.log_level.upper()},
    "loggers": {
        "django": {"handlers": [], "propagate": True},
        # Its warnings are refusals of requests, which the answer has; those of clients are not trouble.
        "django.request": {"level": "DEBUG" if MOM.log_level == "debug" else "ERROR"},
        "django.server": {"handlers": [], "propagate": True},
        "uvicorn": {"level": "WARNING"},
    },
}
