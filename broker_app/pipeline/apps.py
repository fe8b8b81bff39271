"""The Django application of the data pipeline."""

from django.apps import AppConfig


class PipelineConfig(AppConfig):
    name = "broker_app.pipeline"
    label = "pipeline"
